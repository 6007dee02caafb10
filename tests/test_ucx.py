"""UCX: which libucp is taken, what a node and a client do with it, and what they say of it."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading

import pytest

import pygd2fs
from gd2fs import Client, InvalidRequest, Unavailable
from gd2fs.cli.status import NO_MATTER
from gd2fs.config import NodeConfig
from gd2fs.registered import RegisteredMemory
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import Cluster
from gd2fs.ucx import CARDS, libraries_in_wheels, library_of, load_ucx, spare_process

MIB = 1 << 20
CONTENT = bytes(range(256)) * (MIB >> 8)


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A Python with the wheels `libucx` and `nixl_cu12`, the latter with what drives cards."""
    files = [
        "libucx/__init__.py",
        "libucx/lib/libucp.so.0",
        "libucx/lib/ucx/libuct_cma.so.0",
        "nixl_cu12/__init__.py",
        "nixl_cu12.libs/libucp-b39b3ed9.so.0.0.0",
        "nixl_cu12.libs/ucx/libuct_ib.so.0.0.0",
    ]
    for each in files:
        path = tmp_path / "packages" / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    return tmp_path / "packages"


def test_a_path_that_is_given_is_taken(wheels):
    assert library_of("/opt/ucx/libucp.so.0") == "/opt/ucx/libucp.so.0"


def test_without_cards_the_first_wheel_will_do(wheels, tmp_path):
    assert library_of(cards=tmp_path / "none") == str(wheels / "libucx/lib/libucp.so.0")


def test_with_cards_it_has_to_drive_them(wheels, tmp_path):
    (tmp_path / "cards" / "mlx5_0").mkdir(parents=True)

    found = library_of(cards=tmp_path / "cards")

    assert found == str(wheels / "nixl_cu12.libs/libucp-b39b3ed9.so.0.0.0")


def test_else_it_is_the_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert libraries_in_wheels() == []
    assert library_of() == ""


def test_it_says_what_it_is(libucp):
    found = load_ucx(libucp)

    assert found.path == libucp
    assert found.version.startswith("1.")
    assert not found.knows_cards  # if it does by now, the extra `rdma` may name it


def test_what_is_no_libucp_is_refused_with_a_hint(tmp_path):
    (tmp_path / "libucp.so.0").write_text("")

    with pytest.raises((InvalidRequest, Unavailable), match="cannot be loaded") as caught:
        load_ucx(str(tmp_path / "libucp.so.0"))

    assert "gd2fs[rdma]" in caught.value.hint


def test_ucx_spares_a_process_that_has_not_said_otherwise():
    environ = {"UCX_MODULES": "all"}

    spare_process(environ)

    assert environ == {"UCX_MODULES": "all", "UCX_MEM_MMAP_HOOK_MODE": "none"}


@pytest.mark.slow
def test_a_node_whose_ucx_is_nixls_ends_as_it_should():
    """Seen where the machine has libraries of cards too, as those with cards have."""
    wheels = libraries_in_wheels(("nixl_cu12", "nixl_cu13"))
    if not wheels:
        pytest.skip("there is no wheel of NIXL")
    words = ["serve", "--cluster", "c", "--listen", "127.0.0.1:0", "--memory", "64MiB"]
    words += ["--rdma", "on", "--ucx", str(wheels[0]), "--ucx-tls", "tcp"]
    node = subprocess.Popen(
        [sys.executable, "-m", "gd2fs", *words], stdout=subprocess.PIPE, text=True
    )

    assert node.stdout is not None and "rdma=on" in node.stdout.readline()
    node.terminate()
    assert node.wait(30) == 0


def test_a_node_with_rdma_needs_ucx(tmp_path):
    with (
        pytest.raises(InvalidRequest, match="UCX cannot be loaded"),
        LocalNodes(1, rdma={"use": "on", "library": str(tmp_path / "none")}),
    ):
        pass


@pytest.mark.parametrize("word", ["yes", "", "ON"])
def test_another_word_for_rdma_is_refused(word):
    with pytest.raises(InvalidRequest, match="--rdma"):
        NodeConfig(cluster="c", rdma=word)


def test_reasons_that_do_not_matter_are_the_cores_words():
    with LocalNodes(1, rdma={"use": "off"}) as off, LocalNodes(1) as automatic:
        lacks = [nodes.servers[0].rdma_lack for nodes in (off, automatic)]

    has_cards = CARDS.is_dir() and any(CARDS.iterdir())
    assert lacks[0] == NO_MATTER[0]
    assert has_cards or lacks[1] == NO_MATTER[1]


def test_how_it_is_reached_is_told(rdma_tcp_client):
    assert {node.transport for node in rdma_tcp_client.ping()} == {"rdma"}


# ---- registered memory ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rdma_tcp_client", "rdma_shm_client", "tcp_client"])
def test_registered_memory_takes_bytes(request, path, name):
    client: Client = request.getfixturevalue(name)
    pool = bytearray(3 * MIB)
    client.put(path, CONTENT)

    client.register(pool)
    size = client.read(path, 0, memoryview(pool)[MIB : 2 * MIB])

    assert size == MIB
    assert pool == bytes(MIB) + CONTENT + bytes(MIB)
    assert client.deregister(pool)
    assert not client.deregister(pool)


def test_registered_memory_stays_where_it_is(rdma_tcp_client):
    pool = bytearray(MIB)
    rdma_tcp_client.register(pool)
    rdma_tcp_client.register(pool)

    with pytest.raises(BufferError):
        pool.extend(b"more")
    assert rdma_tcp_client.deregister(pool)
    with pytest.raises(BufferError):
        pool.extend(b"more")
    assert rdma_tcp_client.deregister(pool)
    pool.extend(b"more")


@pytest.mark.parametrize("buffer", [bytearray(), b"not writable", memoryview(bytearray(8))[::2]])
def test_what_cannot_be_registered_is_refused(rdma_tcp_client, buffer):
    with pytest.raises(InvalidRequest):
        rdma_tcp_client.register(buffer)


class NoRoom:
    """A native client as one with a card whose limit of locked memory is reached."""

    def register_memory(self, address: int, length: int) -> None:
        raise Unavailable(f"{length} B of memory cannot be registered")

    def direct_lack(self, address: int, length: int) -> str:
        return ""


def test_what_cannot_be_registered_is_an_error_only_where_rdma_is_asked_for(logged):
    pool = bytearray(MIB)
    asked, automatic = (RegisteredMemory(NoRoom(), is_wanted=each) for each in (True, False))

    with pytest.raises(Unavailable, match="cannot be registered"):
        asked.add(pool)
    automatic.add(pool)
    assert not automatic.drop(pool)
    assert logged == [f"its bytes go through the stream: {MIB} B of memory cannot be registered"]


def test_memory_may_be_registered_by_many_threads(rdma_tcp_client):
    pools = [bytearray(MIB) for _ in range(8)]

    def use(pool: bytearray) -> None:
        for _ in range(20):
            rdma_tcp_client.register(pool)
            assert rdma_tcp_client.deregister(pool)

    threads = [threading.Thread(target=use, args=(pool,)) for pool in [*pools, *pools]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not any(rdma_tcp_client.deregister(pool) for pool in pools)


def test_published_memory_takes_bytes(libucp, path, monkeypatch):
    monkeypatch.setenv("GD2FS_UCX", libucp)
    monkeypatch.setenv("GD2FS_UCX_TLS", "tcp")
    settings = {"use": "on", "library": libucp, "transports": "tcp"}
    into = ctypes.create_string_buffer(MIB)
    with LocalNodes(2, rdma=settings) as nodes:
        with nodes.client(transport="tcp") as client:
            client.put(path, CONTENT)
        xfer = pygd2fs.Client(nodes.cp, "rdma://127.0.0.1", nodes.cluster)
        iomem = xfer.RegIOMEM(ctypes.addressof(into), MIB)
        request = xfer.Read(path, 0, [pygd2fs.SGE(iomem.address, MIB, iomem)], 0, "")

        assert xfer.Wait(20_000) == [request]
        assert (request.Status(), request.Value(), into.raw) == (0, MIB, CONTENT)
        xfer.DeregIOMEM(iomem)
        tallies = [server.tally()["transports"] for server in nodes.servers]
        out = {
            name: sum(ways[at][2] for ways in tallies) for at, (name, *_) in enumerate(tallies[0])
        }
        assert out["rdma"] >= MIB


# ---- a node of its own ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_node_says_that_it_takes_part(libucp, tmp_path, monkeypatch):
    monkeypatch.setenv("GD2FS_UCX_TLS", "tcp")
    options = ("--rdma", "on", "--ucx", libucp)
    with Cluster(2, "64MiB", str(tmp_path), options=options) as cluster:
        words = [sys.executable, "-m", "gd2fs", "status", "--cp", cluster.cp, "--cluster", "test"]
        shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        told = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout
        log = cluster.members[0].last_words()
        ready = cluster.members[0].ready_line

    assert "rdma" in shown.splitlines()[0]
    assert {node["rdma_lack"] for node in json.loads(told)["nodes"]} == {""}
    assert "RDMA is on: UCX 1." in log and libucp in log
    assert "rdma=on" in ready.split()


@pytest.mark.slow
def test_what_ucx_has_to_say_is_not_said_on_standard_output(libucp):
    """As nodes and commands print answers there."""
    code = (
        "import sys; from gd2fs.testing import LocalNodes\n"
        "rdma = {'use': 'on', 'library': sys.argv[1], 'transports': 'tcp'}\n"
        "with LocalNodes(1, rdma=rdma): pass\n"
    )
    loud = {"UCX_LOG_LEVEL": "info"}

    ended = subprocess.run(
        [sys.executable, "-c", code, libucp], capture_output=True, text=True, env=loud, check=True
    )

    assert ended.stdout == ""
    assert "UCX: " in ended.stderr
