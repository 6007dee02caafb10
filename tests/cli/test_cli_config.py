"""`gd2fs serve --config`, `gd2fs config show|set|unset` and `gd2fs why`, against real nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

from gd2fs import Client
from gd2fs.testing.cluster import Cluster

PAGE = 256 * 1024


@pytest.fixture
def client(cluster):
    with Client(cluster.cp, cluster=cluster.name, timeout_s=20) as connected:
        yield connected


def put_pages(client, namespace, count):
    pages = client.pages(namespace)
    for number in range(count):
        assert pages.put([f"k{number}"], [number.to_bytes(4) * (PAGE // 4)]) == [True]


def said(done) -> str:
    return done.stderr.decode()


def test_show_prints_what_serve_reads(cluster, run, tmp_path):
    done = run("config", "show", "--node", "n0")

    shown = tomllib.loads(done.stdout.decode())
    assert shown["memory"] == "256MiB"
    assert shown["cluster"] == cluster.name
    (tmp_path / "again.toml").write_bytes(done.stdout)
    again = run("serve", "--config", "again.toml", "--memory", "1B")
    assert "1 bytes of memory are too few" in said(again)  # all else of the file was taken


def test_a_quota_that_is_set_holds_at_once_on_all_nodes(client, run):
    put_pages(client, "quota", 24)

    assert run("config", "set", "namespace.quota.quota", "1MiB").returncode == 0

    put_pages(client, "quota", 24)
    listing = client.pages("quota").list(limit=100)
    assert 0 < sum(size for _, size in listing.entries) <= 2 << 20  # of two nodes
    shown = json.loads(run("config", "show", "--json").stdout)["nodes"]
    assert all(node["namespace"]["quota"] == {"quota": "1MiB"} for node in shown.values())
    assert run("config", "unset", "namespace.quota.quota").returncode == 0


def test_what_cannot_be_set_names_its_key(run):
    for key, value, words in (
        ("namespace.kv.qouta", "1MiB", "`namespace.kv.qouta` is no rule"),
        ("namespace.kv.quota", "lots", "`namespace.kv.quota` is 'lots'"),
        ("threads", "4", "`threads` is read when the node starts"),
    ):
        done = run("config", "set", key, value)
        assert done.returncode == 1
        assert words in said(done)


def test_a_node_that_does_not_exist_is_refused(run):
    done = run("config", "set", "default.class", "4", "--node", "n7")

    assert done.returncode == 1
    assert "no node `n7`" in said(done)


def test_the_options_of_c_programs_are_printed_as_ever(run):
    assert b"-I" in run("config", "--cflags").stdout
    assert b"Show and change" in run("config").stdout


def test_why_finds_what_is_here(client, run):
    client.put("/t/here", [b"x" * 100_000])

    done = run("why", "/t/here")

    assert done.returncode == 0
    assert done.stdout.decode().startswith("/t/here: here: n")


def test_why_tells_what_was_never_written(run):
    done = run("why", "/t/never")

    assert done.returncode == 3
    assert "never written" in done.stdout.decode()


def test_why_tells_what_was_dropped_and_what_has_expired(client, run):
    client.pages("t").put([b"\x00\xff"], [b"value"])
    client.pages("t").drop([b"\x00\xff"])
    done = run("why", "00ff", "--page", "t", "--hex")
    assert done.returncode == 3
    assert "dropped by a call" in done.stdout.decode()

    client.put("/t/unlinked", [b"x" * 10])
    client.unlink("/t/unlinked")
    assert "dropped by a call" in run("why", "/t/unlinked").stdout.decode()


def test_why_tells_what_was_over_its_quota(client, run):
    assert run("config", "set", "namespace.t.quota", "512KiB").returncode == 0
    put_pages(client, "t", 24)

    texts = [run("why", f"k{number}", "--page", "t").stdout.decode() for number in range(8)]
    facts = json.loads(run("why", "k0", "--page", "t", "--json").stdout)

    assert any("over the quota of its namespace by lru" in text for text in texts)
    assert facts["state"] in ("gone", "here")
    assert len(facts["nodes"]) == 2
    assert run("config", "unset", "namespace.t.quota").returncode == 0


def test_why_names_a_node_that_is_down(tmp_path):
    def why(cluster, *words):
        command = [sys.executable, "-m", "gd2fs", "why", *words, "--cp", cluster.cp]
        return subprocess.run(
            [*command, "--cluster", cluster.name], capture_output=True, timeout=60, text=True
        )

    with Cluster(2, "64MiB", str(tmp_path), name="down") as cluster:
        with Client(cluster.cp, cluster=cluster.name) as client:
            put_pages(client, "t", 8)
        cluster.members[1].kill()
        texts = [why(cluster, f"k{number}", "--page", "t").stdout for number in range(8)]

    assert any(": here: n0" in text for text in texts)
    assert any("no answer from n1" in text for text in texts)


def test_serve_takes_rules_from_its_file_and_the_command_line_wins(tmp_path):
    path = tmp_path / "node.toml"
    path.write_text('threads = 1\nmemory = "64MiB"\n[namespace.kv]\npolicy = "s3-fifo"\n')
    options = ["--config", str(path)]
    with (
        Cluster(1, "128MiB", str(tmp_path), name="file", options=options) as cluster,
        Client(cluster.cp, cluster=cluster.name) as client,
    ):
        [reply] = client.settings({"do": "show"})

    shown = reply.value["settings"]
    assert shown["memory"] == "128MiB"
    assert shown["threads"] == 1
    assert shown["namespace"] == {"kv": {"policy": "s3-fifo"}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memroy = '1GiB'", "`memroy` is no setting"),
        ("[namespace.kv]\nttl = 'x'", "`namespace.kv.ttl` is 'x'"),
        ("threads = 'x'", "`threads` is 'x'"),
        ("memory =", "is not TOML"),
    ],
)
def test_serve_refuses_a_file_that_is_wrong(run, tmp_path, text, words):
    (tmp_path / "node.toml").write_text(text)

    done = run("serve", "--config", "node.toml")

    assert done.returncode == 1
    assert words in said(done)


def test_why_tells_what_is_on_disk_and_a_demotion_can_be_forbidden_at_run_time(tmp_path):
    options = ["--nvme", f"{tmp_path}/disk:256MiB"]
    with (
        Cluster(1, "32MiB", str(tmp_path), name="disk", options=options) as cluster,
        Client(cluster.cp, cluster=cluster.name, timeout_s=20) as client,
    ):
        [reply] = client.settings({"do": "set", "key": "namespace.memory.demote", "value": "none"})
        assert "settings" in reply.value
        for number in range(120):  # 30 MiB each
            for namespace in ("memory", "both"):
                page = number.to_bytes(4) * (PAGE // 4)
                while client.pages(namespace).put([f"k{number}"], [page]) != [True]:
                    pass
        [kept] = client.why(page=("both", "k0"))
        [gone] = client.why(page=("memory", "k0"))

    assert kept.value["pieces"] == 1
    assert kept.value["disk_bytes"] == PAGE
    assert kept.value["memory_bytes"] == 0
    assert gone.value["pieces"] == 0
    assert gone.value["departures"][0]["cause"] == "evicted"
