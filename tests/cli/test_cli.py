"""The command line against real nodes: what is printed, and what it says of bad input."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
import typer

from gd2fs import Client
from gd2fs.cli.app import GROUPS, make_app
from gd2fs.testing.cluster import Cluster, free_ports

MIB = 1 << 20
STATUS_FIELDS = {
    "name",
    "boot",
    "epoch",
    "state",
    "transport",
    "fault",
    "rung",
    "arena_mode",
    "zero_copy",
    "arena_bytes",
    "arena_free_bytes",
    "nvme_bytes",
    "nvme_live_bytes",
    "nvme_cold_bytes",
    "nvme_fault",
    "rdma_lack",
    "numa_bytes",
}
BOUNDED_S = 20.0  # for a command that meets a dead node: its deadline, and the start of Python

pytestmark = pytest.mark.slow


def message_of(done) -> str:
    return done.stderr.decode()


# ---- the other commands --------------------------------------------------------------------------


def test_ls_lists_paths_and_sizes(run, local):
    for name, size in (("b", 2), ("a", 1)):
        run("put", local(size), f"/t/{name}")

    assert json.loads(run("ls", "--json", "/t/").stdout) == {
        "files": [{"path": "/t/a", "bytes": 1}, {"path": "/t/b", "bytes": 2}]
    }
    assert run("ls", "/t/").stdout.decode().split() == ["1", "B", "/t/a", "2", "B", "/t/b"]


def test_names_cannot_drive_the_terminal(run, cluster):
    name = "/t/\x1b]0;title\a\nnew \\ line"
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.create(name)
    shown = [
        run("ls", "/t/").stdout,
        run("stat", name).stdout,
        run("get", name + "\x1b", "x").stderr,
    ]

    assert all(b"\x1b" not in text and b"\a" not in text for text in shown)
    assert rb"/t/\x1b]0;title\x07\nnew \\ line" in shown[0]
    assert json.loads(run("ls", "--json", "/t/").stdout)["files"][0]["path"] == name


def test_a_name_that_is_not_utf8_is_shown_by_its_bytes(run, cluster):
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.create("/t/\udcff")

    assert rb"/t/\xff" in run("ls", "/t/").stdout


def test_a_prefix_that_no_path_has_is_refused(run):
    done = run("ls", "..")

    assert done.returncode == 1
    assert message_of(done).startswith("error: prefix `..` is not absolute")


def test_stat_says_size_and_generation(run, local):
    run("put", local(7), "/t/file")

    facts = json.loads(run("stat", "--json", "/t/file").stdout)

    assert (facts["path"], facts["size"]) == ("/t/file", 7)
    shown = run("stat", "/t/file").stdout
    assert b"generation" in shown and b"as many as its namespace has" in shown


def test_rm_removes_one_file(run, local):
    run("put", local(1), "/t/file")

    assert run("rm", "/t/file").returncode == 0
    assert run("stat", "/t/file").returncode == 1
    assert run("rm", "/t/file").returncode == 1


def test_rm_r_removes_what_is_below_and_nothing_beside(run, local):
    for path in ("/t/dir/a", "/t/dir/b/c", "/t/dir2/a"):
        run("put", local(1), path)

    assert run("rm", "-r", "/t/dir").returncode == 0

    assert [file["path"] for file in json.loads(run("ls", "--json", "/t/").stdout)["files"]] == [
        "/t/dir2/a"
    ]


def test_rm_r_of_a_namespace_takes_its_pages_too(run, cluster, local):
    run("put", local(1), "/t/file")
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.pages("t").put([b"key"], [b"value"])

        assert run("rm", "-r", "/t").returncode == 0

        assert client.pages("t").exists([b"key"]).present == [False]
        assert client.stat("/t/file") is None


@pytest.mark.parametrize("path", ["/t", "/t/dir"])
def test_rm_r_with_a_node_down_is_an_error(run, tmp_path, path):
    with Cluster(2, "16MiB", str(tmp_path), name="cli") as pair:
        with Client(pair.cp, cluster=pair.name) as client:
            for index in range(20):
                client.create(f"/t/dir/{index}")
        pair.members[1].kill()
        done = run("rm", "-r", path, cp=pair.cp)

    assert done.returncode == 1
    assert re.match(r"error: .*\d+ (forgotten|files removed).*\nhint: ", message_of(done))


def test_what_is_printed_for_a_program_has_no_blanks_at_ends_of_lines(run):
    for words in (("status",), ("cluster", "status")):
        lines = run(*words).stdout.splitlines()
        assert len(lines) > 1 and [each for each in lines if each != each.rstrip()] == []


def test_status_has_exactly_the_promised_fields(run, cluster):
    nodes = json.loads(run("status", "--json").stdout)["nodes"]

    assert [set(node) for node in nodes] == [STATUS_FIELDS] * 2
    assert sorted(node["name"] for node in nodes) == ["n0", "n1"]
    assert {node["state"] for node in nodes} == {"active"}
    assert all(0 < node["arena_free_bytes"] <= node["arena_bytes"] for node in nodes)


def test_status_for_people_names_every_node(run):
    shown = run("status").stdout.decode()

    assert "n0" in shown and "n1" in shown and "active" in shown


def test_status_in_a_pipe_has_one_line_for_each_node(run):
    lines = run("status").stdout.decode().splitlines()

    assert len(lines) == 3  # the head too: nothing is folded to the width of a terminal


def test_status_says_why_a_node_is_gone(run, tmp_path):
    with Cluster(2, "16MiB", str(tmp_path), name="cli") as pair:
        pair.members[1].kill()
        asked = run("status", cp=pair.cp)
        nodes = json.loads(run("status", "--json", cp=pair.cp).stdout)["nodes"]

    assert {node["state"]: bool(node["fault"]) for node in nodes} == {"active": False, "gone": True}
    assert re.search(r"warning: n1 is gone \(.+\)", message_of(asked))


@pytest.mark.parametrize("words", [["bench", "-h"], ["bench", "io", "-h"], ["demo", "-h"]])
def test_the_short_option_shows_the_help_of_all_commands(run, words):
    assert run(*words).returncode == 0


@pytest.mark.parametrize("word", ["version", "--version"])
def test_version_is_one_line(run, word):
    assert run(word).stdout.decode().startswith("gd2fs 0.")


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["put"], ["put", "a"], ["unknown"], ["ls", "--nope"]])
def test_wrong_usage_is_status_2(run, words):
    assert run(*words).returncode == 2


@pytest.mark.parametrize(
    "path", ["/t/../x", "/t/./x", "/t//x", "t/x", "/t", "", "/t/" + "x" * 1100, "gd2fs://", "/t/.."]
)
def test_a_path_that_breaks_the_rules_is_refused(run, local, path):
    done = run("put", local(1), path)

    assert done.returncode == 1
    assert message_of(done).startswith("error: ")


def test_the_wrong_cluster_is_named(run):
    done = run("status", name="another")

    assert done.returncode == 1
    assert "another" in message_of(done) and message_of(done).count("\n") <= 2


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_nobody_there_is_an_error_in_bounded_time(run, host):
    start = time.monotonic()

    done = run("status", cp=f"gd2fs://{host}:{free_ports(1)[0]}")

    assert done.returncode == 1
    assert message_of(done).startswith("error: ") and host in message_of(done)
    assert time.monotonic() - start < BOUNDED_S


@pytest.mark.parametrize("setting", [{"cp": ""}, {"name": ""}])
def test_a_setting_that_is_missing_is_named(run, setting):
    done = run("status", **setting)

    assert done.returncode == 1
    assert "hint: " in message_of(done)


def test_a_file_larger_than_all_arenas_is_refused_at_once(run, local):
    done = run("put", local(600 * MIB, "huge"), "/t/huge")

    assert done.returncode == 1
    assert message_of(done).startswith("error: put /t/huge: 600 MiB are more than the 512 MiB ")
    assert run("stat", "/t/huge").returncode == 1


# ---- the reference -------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS)
def test_of_a_command_only_its_own_file_is_loaded(group):
    alone = typer.main.get_command(make_app(GROUPS[group][-1])).commands

    assert set(alone) == set(GROUPS[group])


def test_the_reference_names_every_command_and_option():
    text = (Path(__file__).resolve().parents[2] / "docs/reference/cli.md").read_text("utf-8")
    commands = typer.main.get_command(make_app()).commands
    shown = [p for command in commands.values() for p in command.params if not p.hidden]
    words = {word for p in shown for word in p.opts}

    assert [name for name in commands if not re.search(rf"^## .*\b{name}\b", text, re.M)] == []
    assert [word for word in words if word.startswith("--") and word not in text] == []
