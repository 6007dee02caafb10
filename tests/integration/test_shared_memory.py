"""Shared memory between processes: who gets it, and what is left when one side is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from gd2fs import Client, Unavailable
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import Cluster, free_ports

PATIENCE_S = 20.0
PAGE = os.urandom(2_000_000)
NOBODY = 65534

pytestmark = pytest.mark.slow

# Looks at a page, reads others without end, and is killed meanwhile.
READER = """
import sys
from gd2fs import Client
client = Client(sys.argv[1], cluster=sys.argv[2], transport="shm")
view = client.view("ns", b"page-0")
assert not view.is_copy
pages = client.pages("ns")
keys = [b"page-%d" % number for number in range(8)]
into = [bytearray(2_000_000) for _ in keys]
pages.get(keys, into)
print("reading", flush=True)
while True:
    pages.get(keys, into)
"""


def eventually(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            return False
        os.sched_yield()
    return True


def mappings() -> set[str]:
    """Addresses where this process may read, and not write, the memory of nodes."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return {line.split()[0] for line in maps if " r--s " in line and "gd2fs-arena" in line}


@pytest.fixture
def node(tmp_path) -> Iterator[Cluster]:
    admin = f"127.0.0.1:{free_ports(1)[0]}"
    cluster = Cluster(1, "128MiB", str(tmp_path), arena="memfd", options=["--admin", admin])
    cluster.admin = admin  # type: ignore[attr-defined]
    with cluster:
        yield cluster


def metric(node: Cluster, name: str) -> float:
    address = node.admin  # type: ignore[attr-defined]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_a_node_process_shares_its_memory_with_this_user(node):
    with Client(node.cp, cluster=node.name) as client:
        client.pages("ns").put([b"key"], [PAGE])
        into = bytearray(len(PAGE))
        client.pages("ns").get([b"key"], [into])

        assert into == PAGE
        (status,) = client.ping()
        assert (status.transport, status.rung, status.arena_mode) == ("shm", "memfd", "sealed")
    assert "shm=shared" in node.members[0].ready_line
    assert metric(node, "gd2fs_leased_bytes_total") == len(PAGE)


def test_a_node_process_cannot_be_traced_by_its_user(node):
    pid = node.members[0].process.pid
    if os.geteuid() == 0:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            assert "Uid:\t0\t" in status.read()
        # Root may; who may not is told by the owner of its files, which is root for all users.
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0
    else:
        with pytest.raises(PermissionError), open(f"/proc/{pid}/mem", "r+b"):
            pass


def test_a_killed_reader_gives_back_what_it_held_and_looked_at(node):
    with Client(node.cp, cluster=node.name) as client:
        keys = [b"page-%d" % number for number in range(8)]
        client.pages("ns").put(keys, [PAGE] * len(keys))
        command = [sys.executable, "-c", READER, node.cp, node.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout.readline() == "reading\n"
            assert metric(node, "gd2fs_views ") == 1
            client.pages("ns").drop(keys)

            reader.send_signal(signal.SIGKILL)

        assert eventually(lambda: metric(node, "gd2fs_views ") == 0)
        assert eventually(lambda: metric(node, 'gd2fs_arena_bytes{state="zombie"}') == 0)


def test_a_view_outlives_its_node_and_the_mapping_goes_with_it(node):
    before = mappings()
    with Client(node.cp, cluster=node.name, timeout_s=2.0) as client:
        client.pages("ns").put([b"key"], [PAGE])
        view = client.view("ns", b"key")
        assert mappings() - before

        node.members[0].kill()

        into = bytearray(len(PAGE))
        assert client.pages("ns").get([b"key"], [into]).leading == 0
        assert client.view("ns", b"key") is None
        assert bytes(view.memory) == PAGE
        assert mappings() - before
        view.release()
        assert eventually(lambda: not mappings() - before)


def test_an_idle_client_lets_go_of_a_node_that_has_ended(node):
    before = mappings()
    with Client(node.cp, cluster=node.name) as client:
        client.pages("ns").put([b"key"], [PAGE])
        assert client.view("ns", b"key").size == len(PAGE)
        assert mappings() - before

        node.members[0].kill()

        assert eventually(lambda: not mappings() - before)


def test_shared_memory_can_be_switched_off():
    with (
        LocalNodes(1, arena="memfd", is_shared=False) as nodes,
        nodes.client() as client,
    ):
        client.put("/ns/file", PAGE)

        assert client.get("/ns/file") == PAGE
        assert client.ping()[0].transport == "unix"
        assert client.ping()[0].arena_mode == "private"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_served_without_shared_memory_and_told_so():
    with LocalNodes(1, arena="memfd") as nodes, nodes.client() as client:
        client.put("/ns/file", PAGE)

        def look() -> bool:
            with nodes.client(transport="auto") as other:
                is_right = other.get("/ns/file") == PAGE and other.ping()[0].transport == "unix"
            with nodes.client(transport="shm", timeout_s=2.0) as other:
                try:
                    other.get("/ns/file")
                except Unavailable as error:
                    return is_right and f"not with user {NOBODY}" in str(error)
            return False

        assert as_nobody(look)


def as_nobody(use: Callable[[], bool]) -> bool:
    """Whether ``use`` returned True in a child that is another user."""
    child = os.fork()
    if child == 0:
        is_true = False
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            is_true = use()
        finally:
            os._exit(0 if is_true else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
