"""Advice about memory: from Python, from the command line, over HTTP, and ahead of a reader."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from test_node import Serve

from gd2fs import Client
from gd2fs.errors import InvalidRequest
from gd2fs.testing.nodes import LocalNodes

MIB = 1 << 20
BLOCK = 64 << 10
CHUNK = 1 * MIB
DEADLINE_S = 20.0


@pytest.fixture
def nodes(tmp_path):
    """A node with a disk, so small in memory that little stays."""
    with LocalNodes(1, memory_bytes=24 * MIB, nvme=[(str(tmp_path / "nvme"), 256 * MIB)]) as nodes:
        yield nodes


@pytest.fixture
def client(nodes):
    with Client(nodes.cp, cluster=nodes.cluster, timeout_s=DEADLINE_S) as client:
        yield client


def counts(nodes) -> dict[str, int]:
    return nodes.servers[0].counts()


def put_file(client, path: str, size: int = 8 * MIB) -> bytes:
    content = random.Random(path).randbytes(size)
    client.put(path, content, chunk_bytes=CHUNK)
    return content


def push_out(client) -> None:
    """So much else is written that what came before is on disk alone."""
    for number in range(48):
        client.pages("other").put([f"page{number}"], [bytes([number]) * MIB])


def settle(nodes) -> None:
    """What is still being written cannot be evicted: others would have to go in its place."""
    deadline = time.monotonic() + DEADLINE_S
    while counts(nodes)["dirty_bytes"] > 6 * MIB:  # a quarter of the memory
        assert time.monotonic() < deadline


def test_willneed_loads_and_what_is_read_then_is_in_memory(nodes, client):
    content = put_file(client, "/kv/file")
    push_out(client)
    settle(nodes)
    advised = client.fadvise("/kv/file", "willneed")

    assert advised.wait() == len(content)
    assert advised.progress_bytes == len(content)
    assert advised.missing == []
    loaded = counts(nodes)["loaded_bytes"]
    assert client.get("/kv/file") == content
    assert counts(nodes)["loaded_bytes"] == loaded


def test_dontneed_lets_go_of_whole_blocks_and_of_no_other_byte(nodes, client):
    content = put_file(client, "/kv/file")
    live = counts(nodes)["live_bytes"]

    freed = client.fadvise("/kv/file", "dontneed", offset=100, length=3 * MIB).wait()

    assert freed == 3 * MIB - BLOCK
    assert live - counts(nodes)["live_bytes"] == freed
    assert client.get("/kv/file") == content  # it was written to disk first


def test_what_is_pinned_stays_in_memory(nodes, client):
    content = put_file(client, "/kv/file")
    assert client.fadvise("/kv/file", "pin").wait() == len(content)

    push_out(client)
    loaded = counts(nodes)["loaded_bytes"]
    assert client.get("/kv/file") == content
    assert counts(nodes)["loaded_bytes"] == loaded

    assert client.fadvise("/kv/file", "dontneed").wait() == 0
    assert client.get("/kv/file") == content
    assert counts(nodes)["loaded_bytes"] == loaded

    assert client.fadvise("/kv/file", "unpin").wait() == len(content)
    push_out_again = client.fadvise("/kv/file", "dontneed").wait()
    assert push_out_again == len(content)


def test_pages_are_advised_by_their_keys(nodes, client):
    client.pages("kv").put(["a", "b"], [b"a" * MIB, b"b" * MIB])
    push_out(client)

    advised = client.pages("kv").fadvise(["a", "none", "b"], "willneed")

    assert advised.wait() == 2 * MIB
    assert advised.missing == ["none"]


def test_a_pinned_page_is_not_missing_when_others_go(nodes, client):
    client.pages("kv").put(["a", "b"], [b"a" * MIB, b"b" * MIB])
    assert client.pages("kv").fadvise(["a"], "pin").wait() == MIB

    advised = client.pages("kv").fadvise(["a", "b"], "dontneed")

    assert advised.wait() == MIB
    assert advised.missing == []


def test_a_file_that_is_not_there_is_missing(client):
    put_file(client, "/kv/file", MIB)

    advised = client.fadvise(["/kv/none", "/kv/file"], "willneed")

    assert advised.wait() == MIB
    assert advised.missing == ["/kv/none"]


def test_cancelled_advice_ends_at_once(client):
    put_file(client, "/kv/file")
    push_out(client)
    advised = client.fadvise("/kv/file", "willneed")

    advised.cancel()

    assert advised.wait(5) is not None
    assert client.get("/kv/file") is not None


def test_sequential_files_are_loaded_ahead_of_their_reader(nodes, client):
    content = put_file(client, "/kv/file")
    push_out(client)
    client.fadvise("/kv/file", "sequential")

    into = bytearray(MIB)
    assert client.read("/kv/file", 0, into) == MIB

    deadline = time.monotonic() + DEADLINE_S
    while counts(nodes)["loaded_bytes"] < len(content):
        assert time.monotonic() < deadline
    assert into == content[:MIB]


@pytest.mark.parametrize("words", [{"advice": "never"}, {"offset": -1}, {"length": 1 << 41}])
def test_advice_that_means_nothing_is_refused(client, words):
    with pytest.raises(InvalidRequest):
        client.fadvise("/kv/file", **{"advice": "willneed"} | words)


# ---- over HTTP and on the command line -----------------------------------------------------------


@pytest.fixture
def serve(tmp_path):
    with Serve(
        *("--listen", "tcp://127.0.0.1:0", "--name", "n0", "--admin", "127.0.0.1:0"),
        *("--arena", "plain", "--nvme", f"{tmp_path / 'nvme'}:256MiB"),
        memory="24MiB",
    ) as node:
        yield node


def post(serve, body: object) -> tuple[int, dict]:
    request = urllib.request.Request(
        f"{serve.facts['admin']}/v1/advise", json.dumps(body).encode(), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_a_router_advises_over_http(serve):
    with Client(serve.address, cluster="node", timeout_s=DEADLINE_S) as client:
        content = put_file(client, "/kv/session")
        push_out(client)
        wanted = {"advice": "willneed", "paths": ["/kv/session", "/kv/none"]}

        assert post(serve, wanted) == (202, {"started": 2})
        assert post(serve, wanted | {"wait": True}) == (
            200,
            {"bytes": len(content), "missing": ["/kv/none"]},
        )
        assert client.get("/kv/session") == content
    assert post(serve, {"advice": "never", "paths": ["/kv/a"]})[0] == 400
    assert post(serve, ["no object"])[0] == 400


@pytest.mark.slow
def test_the_command_line_advises_and_tells_what_is_missing(serve):
    with Client(serve.address, cluster="node", timeout_s=DEADLINE_S) as client:
        put_file(client, "/kv/file", 3 * MIB)
        client.pages("kv").put(["a"], [b"a" * MIB])

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gd2fs", "advise", *words, "--json"]
        where = ["--cp", serve.address, "--cluster", "node"]
        return subprocess.run([*command, *where], capture_output=True, text=True, check=False)

    freed = run("dontneed", "--length", "1MiB", "/kv/file")
    assert freed.returncode == 0, freed.stderr
    assert json.loads(freed.stdout)["bytes"] == MIB
    missed = run("willneed", "/kv/file", "/kv/none")
    assert missed.returncode == 3
    assert json.loads(missed.stdout) == {
        "advice": "willneed",
        "bytes": 3 * MIB,
        "missing": ["/kv/none"],
    }
    assert json.loads(run("pin", "--namespace", "kv", "a").stdout)["bytes"] == MIB


@pytest.mark.slow
def test_what_is_being_looked_at_stays_and_is_no_error(tmp_path):
    disk = [(str(tmp_path / "nvme"), 256 * MIB)]
    with (
        LocalNodes(1, memory_bytes=24 * MIB, arena="memfd", nvme=disk) as nodes,
        Client(nodes.cp, cluster=nodes.cluster, timeout_s=DEADLINE_S) as client,
    ):
        content = put_file(client, "/kv/file", MIB)
        with client.view_file("/kv/file") as view:
            advised = client.fadvise("/kv/file", "dontneed")

            assert advised.wait() == 0
            assert advised.missing == []
            assert bytes(view.memory) == content
        assert client.fadvise("/kv/file", "dontneed").wait() == MIB
