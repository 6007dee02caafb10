"""`gd2fs trace record` and POST /v1/trace, of nodes that ask for tokens."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
import urllib.error
import urllib.request

import pytest

from gd2fs import Client
from gd2fs.cli import main
from gd2fs.testing.cluster import Cluster
from gd2fs.tokens import new_token

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MAIN, WATCHER = map(new_token, ("main", "watcher"))
TENANTS = f"""
[tokens.watcher]
secret_hash = "{WATCHER.key.hex()}"
rights = "read"
namespaces = ["*"]
"""
KEYS = [b"%d" % at for at in range(8)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    for name, text in (("token", MAIN.as_text()), ("tenants.toml", TENANTS)):
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
    options = [
        *("--admin", "127.0.0.1:0", "--token-file", str(folder / "token")),
        *("--tenants", str(folder / "tenants.toml")),
    ]
    with Cluster(2, "32MiB", str(folder), arena="plain", name="told", options=options) as running:
        yield running


@pytest.fixture
def asking(cluster):
    """Somebody asks all the time for the same eight pages, of which four are there."""
    is_over = threading.Event()
    with Client(cluster.cp, cluster=cluster.name, token=MAIN.as_text(), timeout_s=20) as client:
        pages = client.pages("kv")
        pages.put(KEYS[:4], [b"x" * 4096] * 4)

        def run() -> None:
            while not is_over.is_set():
                pages.exists(KEYS)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        is_over.set()
        thread.join()


def post(url: str, body: object, token) -> tuple[int, bytes]:
    headers = {"content-type": "application/json", "authorization": f"Bearer {token.as_text()}"}
    request = urllib.request.Request(url + "/v1/trace", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def words_for(cluster, out, *more: str) -> list[str]:
    place = ["--cp", cluster.cp, "--cluster", cluster.name]
    return ["trace", "record", "--out", str(out), "--seconds", "0.6", *place, *more]


def checked(lines: list[str]) -> None:
    header, *requests = map(json.loads, lines)
    assert (header["gd2fs_trace"], header["nodes"]) == (1, ["n0", "n1"])
    assert len({number for each in requests for number in each["hash_ids"]}) == len(KEYS)
    assert sum(each["found"] for each in requests) > 4


def test_what_is_asked_is_written_for_the_simulator(cluster, asking, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GD2FS_TOKEN", MAIN.as_text())
    out = tmp_path / "asked.jsonl.gz"

    status = main(words_for(cluster, out, "--json"))

    told = json.loads(capsys.readouterr().out)
    checked(gzip.decompress(out.read_bytes()).decode().splitlines())
    assert status == 0
    assert told["nodes"] == ["n0", "n1"] and told["asked_blocks"] >= 8
    assert main(["sim", str(out), "--topology", "shared", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["trace"]["distinct_blocks"] == len(KEYS)


def test_who_may_only_read_records_nothing(cluster, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GD2FS_TOKEN", WATCHER.as_text())
    url = cluster.members[0].child.facts["admin"]

    assert main(words_for(cluster, tmp_path / "none")) == 1
    assert "trace: denied by every node" in capsys.readouterr().err
    assert post(url, {"seconds": 1}, WATCHER)[0] == 403


def test_a_node_tells_the_same_over_http(cluster, asking):
    url = cluster.members[1].child.facts["admin"]

    status, body = post(url, {"seconds": 0.6, "block_tokens": 64}, MAIN)

    assert status == 200
    checked(body.decode().splitlines())
    assert json.loads(body.split(b"\n")[0])["block_tokens"] == 64


@pytest.mark.parametrize(
    "body", [{"seconds": 0}, {"seconds": 1, "block_tokens": 0}, {"seconds": 1, "node": "n9"}, {}]
)
def test_what_cannot_be_recorded_is_refused_in_words(cluster, body):
    status, said = post(cluster.members[0].child.facts["admin"], body, MAIN)

    assert status == 400 and json.loads(said)["error"]


def test_over_http_a_recording_of_nothing_says_so_in_its_last_line(
    cluster, asking, tmp_path, capsys
):
    url = cluster.members[0].child.facts["admin"]

    status, body = post(url, {"seconds": 0.3, "namespace": "nosuch"}, MAIN)

    header, last = map(json.loads, body.splitlines())
    assert status == 200 and header["nodes"] == ["n0", "n1"]
    assert last == {
        "error": "nothing was recorded: 0.3 s, and nobody asked any of 2 nodes for anything "
        "in `nosuch`",
        "hint": "lately nodes were asked for kv",
    }
    out = tmp_path / "none.jsonl"
    out.write_bytes(body)
    assert main(["sim", str(out)]) == 1
    assert f"no requests: {last['error']}" in capsys.readouterr().err


@pytest.mark.parametrize("namespace", ["a/b", "..", "n" * 300])
def test_a_namespace_that_can_be_none_is_refused_before(
    cluster, tmp_path, capsys, monkeypatch, namespace
):
    monkeypatch.setenv("GD2FS_TOKEN", MAIN.as_text())
    out = tmp_path / "none"
    url = cluster.members[0].child.facts["admin"]

    status, said = post(url, {"seconds": 60, "namespace": namespace}, MAIN)

    assert status == 400 and json.loads(said)["error"].startswith("namespace `")
    assert main(words_for(cluster, out, "--namespace", namespace, "--seconds", "60")) == 1
    assert "namespace `" in capsys.readouterr().err and not out.exists()


def test_a_node_that_is_not_there_is_told_with_those_that_are(
    cluster, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("GD2FS_TOKEN", MAIN.as_text())
    url = cluster.members[0].child.facts["admin"]

    assert main(words_for(cluster, tmp_path / "none", "--node", "n9")) == 1
    assert "hint: there are n0, n1" in capsys.readouterr().err
    assert (
        json.loads(post(url, {"seconds": 1, "node": "n9"}, MAIN)[1])["hint"] == "there are n0, n1"
    )


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_recording_of_nothing_is_an_error(cluster, asking, tmp_path, capsys, monkeypatch, more):
    monkeypatch.setenv("GD2FS_TOKEN", MAIN.as_text())

    assert main(words_for(cluster, tmp_path / "none", "--namespace", "nosuch", *more)) == 1
    told = capsys.readouterr().err
    assert "nothing was recorded" in told and "asked for kv" in told


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_ends_it_early_has_a_whole_file_and_is_told_what_is_in_it(
    cluster, asking, tmp_path, capsys, monkeypatch, number, status
):
    monkeypatch.setenv("GD2FS_TOKEN", MAIN.as_text())
    out = tmp_path / "asked.jsonl.gz"
    former = signal.getsignal(number)
    timer = threading.Timer(1.5, os.kill, (os.getpid(), number))
    timer.start()

    assert main([*words_for(cluster, out), "--seconds", "60"]) == status
    lines = gzip.decompress(out.read_bytes()).decode().splitlines()
    checked(lines)
    assert capsys.readouterr().out.startswith(f"{len(lines) - 1:,} requests of ")
    assert signal.getsignal(number) is former
