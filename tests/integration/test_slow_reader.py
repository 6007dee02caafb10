"""Readers that stop in the middle of bytes that left the arena by reference.

Such bytes lie in the reader's socket queue as pages of the arena. Whatever becomes of the reader,
of the node and of those pages: a read that succeeds gave the bytes that were put.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reader import page_bytes

from gd2fs import Client
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import Cluster, free_ports

PAGES = 32
PAGE_BYTES = 256 << 10  # several in one frame, and more of them in a socket's queue
ARENA_BYTES = 128 << 20
SILENCE_MS = 400
PATIENCE_S = 20.0
KEYS = [f"page-{index}".encode() for index in range(PAGES)]


class Reader:
    """A process of its own that reads all pages in a loop; see ``reader.py``."""

    def __init__(self, cp: str, *, verify: bool) -> None:
        script = Path(__file__).with_name("reader.py")
        self._process = subprocess.Popen(
            [sys.executable, script, cp, str(int(verify)), str(PAGES), str(PAGE_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"GD2FS_TRANSPORT": "tcp"},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def result(self) -> dict[str, int]:
        """End the loop; how often each answer came."""
        out, _ = self._process.communicate(timeout=60)
        return {name: int(count) for name, count in (part.split("=") for part in out.split())}

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def start_reader() -> Iterator[Callable[..., Reader]]:
    readers: list[Reader] = []

    def start(cp: str, *, verify: bool) -> Reader:
        readers.append(Reader(cp, verify=verify))
        return readers[-1]

    yield start
    for reader in readers:
        reader.end()


def put_pages(client: Client) -> None:
    values = [page_bytes(index, PAGE_BYTES) for index in range(PAGES)]
    assert client.pages("slow").put(KEYS, values) == [True] * PAGES


def overwrite_arena(client: Client) -> None:
    """Fill the whole arena with other pages, twice over."""
    client.clear("slow")
    value = b"\xee" * PAGE_BYTES
    for index in range(2 * ARENA_BYTES // PAGE_BYTES):
        client.pages("other").put([f"other-{index}".encode()], [value])


def pause_in_the_middle(reader: Reader, held_bytes: Callable[[], int]) -> None:
    """Stop the reader while bytes wait in its socket queue."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        time.sleep(random.uniform(0.001, 0.02))
        reader.pause()
        # A node that goes on sending shows that the reader does not: what is held stays held.
        first = held_bytes()
        time.sleep(0.05)
        if first > 0 and held_bytes() > 0:
            return
        reader.go_on()
    pytest.fail("no bytes were ever on their way")


def scraped_held_bytes(admin: str) -> int:
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=PATIENCE_S) as page:
        text = page.read().decode()
    return int(float(text.split("\ngd2fs_held_bytes ")[1].split()[0]))


def wait_until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("verify", [True, False])
def test_a_reader_that_stops_is_cut_off_and_gets_no_wrong_byte(start_reader, verify) -> None:
    settings = {"zero_copy": "on", "hold_silence_ms": SILENCE_MS}
    with LocalNodes(memory_bytes=ARENA_BYTES, arena="thp", **settings) as nodes:
        server = nodes.servers[0]
        with nodes.client() as client:
            assert client.ping()[0].zero_copy == "on"
            put_pages(client)
            reader = start_reader(nodes.cp, verify=verify)
            pause_in_the_middle(reader, lambda: server.counts()["held_bytes"])
            wait_until(lambda: server.counts()["cut_off"] > 0)
            wait_until(lambda: server.counts()["held_bytes"] == 0)

            overwrite_arena(client)
            reader.go_on()
            seen = reader.result()

        assert seen["wrong"] == 0
        assert seen["miss"] > 0  # what it asked for again was gone


@pytest.mark.parametrize("verify", [True, False])
def test_what_is_held_outlives_eviction_until_the_reader_has_it(start_reader, verify) -> None:
    settings = {"zero_copy": "on", "hold_silence_ms": 60_000}
    with LocalNodes(memory_bytes=ARENA_BYTES, arena="thp", **settings) as nodes:
        server = nodes.servers[0]
        with nodes.client() as client:
            put_pages(client)
            reader = start_reader(nodes.cp, verify=verify)
            pause_in_the_middle(reader, lambda: server.counts()["held_bytes"])

            overwrite_arena(client)
            assert server.counts()["zombie_bytes"] > 0  # dropped, and still there for the reader
            reader.go_on()
            seen = reader.result()

        assert seen["wrong"] == 0
        wait_until(lambda: server.counts()["zombie_bytes"] == 0)
        assert server.counts()["cut_off"] == 0


def free_hugepages() -> int:
    text = Path("/proc/meminfo").read_text()
    return int(text.split("HugePages_Free:")[1].split()[0])


@pytest.fixture
def hugetlbfs(tmp_path) -> Iterator[Path]:
    folder = tmp_path / "huge"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "hugetlbfs", "none", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"hugetlbfs cannot be mounted: {mounted.stderr.strip()}")
    if os.statvfs(folder).f_bsize != 2 << 20 or free_hugepages() * (2 << 20) < ARENA_BYTES:
        subprocess.run(["umount", str(folder)], check=True)
        pytest.skip(f"{free_hugepages()} huge pages are free: run `sysctl vm.nr_hugepages=256`")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("verify", [True, False])
def test_a_node_that_dies_and_comes_back_in_the_same_memory_gives_no_wrong_byte(
    start_reader, hugetlbfs, tmp_path, verify
) -> None:
    arena = f"file:{hugetlbfs / 'arena'}"
    admin = f"127.0.0.1:{free_ports(1)[0]}"
    memory = f"{ARENA_BYTES >> 20}MiB"
    options = ["--admin", admin]
    with Cluster(1, memory, str(tmp_path), arena=arena, options=options) as cluster:
        with Client(cluster.cp, cluster="test") as client:
            assert client.ping()[0].zero_copy == "on"
            put_pages(client)
        reader = start_reader(cluster.cp, verify=verify)
        pause_in_the_middle(reader, lambda: scraped_held_bytes(admin))
        cluster.members[0].kill()
        cluster.members[0].start()
        with Client(cluster.cp, cluster="test") as client:
            overwrite_arena(client)
        reader.go_on()
        seen = reader.result()

    assert seen["wrong"] == 0
    assert seen["ok"] > 0
