"""1 GiB over three real nodes and back: `gd2fs`, `pygd2fs` and the command line."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import select
import subprocess
import sys

import pytest

import pygd2fs
from gd2fs import Client
from gd2fs.testing.cluster import Cluster

GIB = 1 << 30
WINDOW_BYTES = 16 << 20
IN_FLIGHT = 8

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # The largest of three equal shares of 256 chunks stays below 45 %, whatever the names hash to.
    with Cluster(
        nodes=3, memory="640MiB", directory=str(tmp_path_factory.mktemp("nodes"))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def source() -> mmap.mmap:
    memory = mmap.mmap(-1, GIB)
    for at in range(0, GIB, WINDOW_BYTES):
        memory[at : at + WINDOW_BYTES] = os.urandom(WINDOW_BYTES)
    return memory


@pytest.fixture
def clean(cluster):
    yield
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.clear("big")


def sha256(memory) -> str:
    return hashlib.sha256(memory).hexdigest()


def test_a_gibibyte_comes_back_through_gd2fs(cluster, source, clean):
    back = mmap.mmap(-1, GIB)

    with Client(cluster.cp, cluster=cluster.name, timeout_s=60) as client:
        client.create("/big/native")
        client.write("/big/native", 0, source)
        assert client.read("/big/native", 0, back) == GIB
        used = [node.arena_bytes - node.arena_free_bytes for node in client.ping()]

    assert sha256(back) == sha256(source)
    assert min(used) > GIB // 8, "the chunks lie on all three nodes"


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def transfer(client: pygd2fs.Client, start, memory: mmap.mmap) -> int:
    """Move the file in windows, `IN_FLIGHT` at a time; bytes moved. Waits on the descriptor."""
    base = address_of(memory)
    iomem = client.RegIOMEM(base, GIB)
    offsets = list(range(0, GIB, WINDOW_BYTES))
    flying, moved = {}, 0
    poller = select.epoll()
    poller.register(client.GetFd(), select.EPOLLIN)
    while offsets or flying:
        while offsets and len(flying) < IN_FLIGHT:
            offset = offsets.pop(0)
            request = start(offset, [pygd2fs.SGE(base + offset, WINDOW_BYTES, iomem)])
            assert request is not None
            flying[request] = offset
        assert poller.poll(60), "a completion is announced on the descriptor"
        for request in client.Wait(0):
            assert request.Status() == 0, pygd2fs.InspectStatus(request.Status())
            del flying[request]
            moved += request.Value()
    poller.close()
    client.DeregIOMEM(iomem)
    return moved


def test_a_gibibyte_comes_back_through_pygd2fs(cluster, source, clean):
    back = mmap.mmap(-1, GIB)
    client = pygd2fs.Client(cluster.cp, "tcp://127.0.0.1", cluster.name, iothreads=2, streams=2)
    created = client.Create("/big/published", 0, 0, "")
    assert client.Wait(-1) == [created] and created.Status() == 0

    written = transfer(
        client, lambda at, sges: client.Write("/big/published", at, sges, 0, ""), source
    )
    read = transfer(client, lambda at, sges: client.Read("/big/published", at, sges, 0, ""), back)

    assert (written, read) == (GIB, GIB)
    assert sha256(back) == sha256(source)


def test_a_gibibyte_comes_back_on_the_command_line(cluster, source, clean, tmp_path):
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(source)
    environment = os.environ | {"GD2FS_CPADDR": cluster.cp, "GD2FS_CLUSTER": cluster.name}

    for words in (["put", str(local), "/big/cli"], ["get", "/big/cli", str(back)]):
        subprocess.run(
            [sys.executable, "-m", "gd2fs", *words], check=True, env=environment, timeout=120
        )

    assert sha256(back.read_bytes()) == sha256(source)
