"""The live client: waiting, cancelling, closing, and every fault that a caller can make."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import signal
import threading
import time

import pytest

from gd2fs import Client, Closed, GD2FSError, InvalidRequest, Unavailable
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import Cluster, free_ports

MIB = 1 << 20
PATIENCE_S = 20.0


def until(fact, patience_s: float = PATIENCE_S) -> bool:
    """Poll ``fact`` until it holds."""
    end = time.monotonic() + patience_s
    while not fact() and time.monotonic() < end:
        time.sleep(0.005)
    return bool(fact())


# ---- connecting ----------------------------------------------------------------------------------


def test_another_cluster_is_refused_by_name(one_node):
    with pytest.raises(InvalidRequest, match="elsewhere"):
        Client(one_node.cp, cluster="elsewhere")


def test_a_host_that_is_not_known_is_named():
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid"):
        Client("no-such-host.invalid:7527", cluster="test")


def test_a_refused_connection_names_what_was_tried():
    port = free_ports(1)[0]

    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}") as caught:
        Client(f"gd2fs://127.0.0.1:{port}", cluster="test")
    assert caught.value.hint


def test_any_live_address_serves(one_node):
    dead = free_ports(1)[0]

    with Client(f"gd2fs://127.0.0.1:{dead},gd2fs://{one_node.cp}", cluster="test") as client:
        assert [node.state for node in client.ping()] == ["active"]


def test_ping_tells_of_every_node(client, three_nodes):
    nodes = {node.name: node for node in client.ping()}

    assert sorted(nodes) == [peer.name for peer in three_nodes.peers]
    assert all(node.arena_bytes == three_nodes.memory_bytes for node in nodes.values())
    assert all(0 < node.arena_free_bytes <= node.arena_bytes for node in nodes.values())


# ---- faults of the caller ------------------------------------------------------------------------


def test_a_page_larger_than_the_arena_is_refused():
    with LocalNodes(1, memory_bytes=8 * MIB) as nodes, nodes.client() as client:
        pages = client.pages("ns")

        with pytest.raises(InvalidRequest, match=str(9 * MIB)):
            pages.put([b"key"], [bytes(9 * MIB)])
        assert pages.put([b"key"], [b"fits"]) == [True]


def test_a_write_larger_than_the_arena_is_refused():
    with LocalNodes(1, memory_bytes=8 * MIB) as nodes, nodes.client() as client:
        client.create("/ns/file", chunk_bytes=16 * MIB)

        with pytest.raises(InvalidRequest):
            client.write("/ns/file", 0, bytes(9 * MIB))
        assert client.append("/ns/file", b"fits") == 0


def test_an_append_past_the_longest_file_says_so(client, path):
    client.create(path)
    client.write(path, (1 << 40) - 1, b"x")

    with pytest.raises(InvalidRequest, match=f"^append 2 bytes to {path}, which has {1 << 40}: "):
        client.append(path, b"yy")


def test_a_get_of_more_than_memory_is_refused(client, path):
    client.create(path)
    client.write(path, (1 << 40) - 1, b"x")

    with pytest.raises(InvalidRequest, match=f"it is {1 << 40} bytes, more than") as caught:
        client.get(path)
    assert caught.value.hint == "read it in ranges"


def test_a_local_address_that_is_another_machines_is_named(one_node):
    with pytest.raises(InvalidRequest, match=r"`tcp://192\.0\.2\.1` is not an address of"):
        one_node.client(dp="tcp://192.0.2.1")


def test_a_congestion_control_that_the_kernel_does_not_have_is_refused(one_node):
    with pytest.raises(InvalidRequest, match="no-such-control") as caught:
        one_node.client(congestion="no-such-control")
    assert "reno" in caught.value.hint


def test_large_pages_come_over_any_number_of_streams(one_node, namespace):
    value = random.Random(1).randbytes(9_000_001)
    with one_node.client(streams=3, io_threads=2, socket_buffer="256KiB") as client:
        pages = client.pages(namespace)
        pages.put([b"key"], [value])
        into = bytearray(len(value))

        pages.get([b"key"], [into])

    assert into == value


def test_a_clear_that_some_node_did_not_hear_of_says_what_it_did(namespace):
    with LocalNodes(2) as nodes, nodes.client(timeout_s=PATIENCE_S) as client:
        for index in range(20):
            client.create(f"/{namespace}/{index}")
        nodes.stop(1)

        with pytest.raises(Unavailable, match=r"\d+ forgotten, but not every node") as caught:
            client.clear(namespace)
        assert caught.value.hint


def test_overlapping_targets_are_named(client, path):
    client.put(path, bytes(100))
    memory = memoryview(bytearray(100))

    with pytest.raises(InvalidRequest, match=r"buffers 0 \(60 bytes\) and 1 \(50 bytes\) overlap"):
        client.read(path, 0, [memory[:60], memory[50:]])


def test_one_source_may_be_written_twice(client, path):
    client.put(path, [b"again "] * 2)

    assert client.get(path) == b"again again "


def test_memory_that_is_not_writable_is_no_target(client, path):
    client.put(path, b"content")

    with pytest.raises(InvalidRequest, match="bytes"):
        client.read(path, 0, bytes(7))


@pytest.mark.parametrize("bad", [7, None, "text", [b"fine", 7], [None], (-1, 5), (0, 5)])
def test_what_is_no_buffer_is_refused(client, path, bad):
    client.create(path)

    with pytest.raises(InvalidRequest):
        client.write(path, 0, bad)


@pytest.mark.parametrize("keys", [b"key", "key", [7], [None], 7])
def test_what_is_no_list_of_keys_is_refused(client, namespace, keys):
    with pytest.raises(InvalidRequest):
        client.pages(namespace).exists(keys)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e9])
def test_every_call_needs_a_deadline(client, path, timeout_s):
    with pytest.raises(InvalidRequest):
        client.stat(path, timeout_s=timeout_s)


@pytest.mark.parametrize("limit", [0, -1, 65_537])
def test_a_listing_has_a_limit(client, namespace, limit):
    with pytest.raises(InvalidRequest):
        client.list(f"/{namespace}/", limit=limit)


def test_a_time_to_live_ends(client, path, namespace):
    client.create(path, ttl_s=1)
    client.pages(namespace).put([b"key"], [b"value"], ttl_s=1)

    assert until(lambda: client.stat(path) is None)
    assert until(lambda: not client.pages(namespace).exists([b"key"]).leading)


# ---- waiting -------------------------------------------------------------------------------------


def test_other_threads_run_while_a_batch_moves(client, namespace):
    keys = [bytes([index]) for index in range(16)]
    into = [bytearray(4 * MIB) for _ in keys]
    client.pages(namespace).put(keys, [random.Random(0).randbytes(4 * MIB)] * 16)
    count, is_over = 0, False

    def counting() -> None:
        nonlocal count
        while not is_over:
            count += 1

    counter = threading.Thread(target=counting)
    counter.start()
    before = count
    sizes = client.pages(namespace).get(keys, into).sizes
    moved, is_over = count - before, True
    counter.join()
    client.clear(namespace)

    assert sizes == [4 * MIB] * 16
    assert moved > 1000


def test_threads_share_a_client(client, namespace):
    contents = {index: random.Random(index).randbytes(200_000) for index in range(8)}
    got = {}

    def use(index: int) -> None:
        path = f"/{namespace}/{index}"
        for _ in range(5):
            client.put(path, contents[index], chunk_bytes=64 << 10)
            got[index] = client.get(path)

    threads = [threading.Thread(target=use, args=(index,)) for index in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert got == contents


def test_a_signal_ends_a_call(stalled):
    client, path = stalled

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.stat(path, timeout_s=PATIENCE_S)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_silent_node_costs_one_deadline(stalled):
    client, path = stalled
    start = time.monotonic()

    with pytest.raises(Unavailable):
        client.stat(path, timeout_s=0.3)
    assert 0.2 < time.monotonic() - start < PATIENCE_S / 2


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """One node in a process of its own."""
    directory = str(tmp_path_factory.mktemp("node"))
    with Cluster(1, "16M", directory, arena="plain") as cluster:
        yield cluster


@pytest.fixture
def stalled(process):
    """A connected client whose node hears and says nothing any more, and a path there."""
    node = process.members[0].process
    with Client(process.cp, cluster=process.name) as client:
        client.create("/ns/file")
        node.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, node.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            yield client, "/ns/file"
        finally:
            node.send_signal(signal.SIGCONT)


def test_native_threads_leave_signals_to_python(one_node):
    before = set(os.listdir("/proc/self/task"))
    with one_node.client():
        started = set(os.listdir("/proc/self/task")) - before
        blocked = [blocked_signals(task) for task in started]

    assert blocked
    assert all(mask >> (signal.SIGTERM - 1) & 1 for mask in blocked)


def blocked_signals(task: str) -> int:
    with open(f"/proc/self/task/{task}/status") as status:
        return next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))


def test_a_call_that_is_dropped_ends_and_gives_its_buffers_back(stalled):
    client, path = stalled
    into = bytearray(100)
    start = time.monotonic()
    call = client._core.read(path.encode(), 0, into, timeout_ms=int(PATIENCE_S * 1e3))

    assert not call.is_done()
    del call
    into.clear()  # raises BufferError while the call still holds it
    assert time.monotonic() - start < PATIENCE_S / 2


# ---- several loops, cancelling, closing  -------------------------------------------------------


def test_many_awaits_run_at_once(client, namespace):
    async def use() -> list[bytearray | None]:
        paths = [f"/{namespace}/{index}" for index in range(100)]
        await asyncio.gather(*(client.aput(path, path.encode()) for path in paths))
        return await asyncio.gather(*(client.aget(path) for path in paths))

    assert asyncio.run(use()) == [f"/{namespace}/{index}".encode() for index in range(100)]


def test_loops_of_several_threads_share_a_client(client, namespace):
    results = {}

    async def use(index: int) -> bool:
        for turn in range(20):
            path = f"/{namespace}/{index}-{turn}"
            content = f"{path}".encode() * 100
            await client.aput(path, content)
            if await client.aget(path) != content:
                return False
        return True

    def run(index: int) -> None:
        results[index] = asyncio.run(use(index))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == dict.fromkeys(range(4), True)


def test_the_descriptor_is_quiet_when_nothing_waits(client, path):
    asyncio.run(client.aput(path, b"content"))
    client.get(path)

    assert select.select([client.fileno()], [], [], 0)[0] == []


def test_a_failing_await_raises(client, path):
    with pytest.raises(InvalidRequest):
        asyncio.run(client.awrite(path, 0, b"content"))


def test_a_cancelled_await_leaves_its_buffers_alone(client, path):
    content = random.Random(0).randbytes(16 * MIB)
    client.put(path, content)

    async def use() -> bool:
        into = bytearray(len(content))
        task = asyncio.ensure_future(client.aread(path, 0, into))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        into.clear()  # raises BufferError while the call still holds it
        return True

    assert asyncio.run(use())
    client.unlink(path)


def test_a_closed_client_says_so(one_node):
    client = one_node.client()
    client.close()
    client.close()

    for use in (
        lambda: client.stat("/ns/file"),
        lambda: client.pages("ns").exists([b"key"]),
        lambda: client.ping(),
        client.fileno,
        lambda: asyncio.run(client.astat("/ns/file")),
    ):
        with pytest.raises(Closed):
            use()


def test_close_ends_calls_under_way(stalled):
    client, path = stalled
    errors = []

    def use() -> None:
        try:
            client.stat(path, timeout_s=PATIENCE_S)
        except GD2FSError as error:
            errors.append(error)

    async def use_async() -> None:
        task = asyncio.ensure_future(client.astat(path, timeout_s=PATIENCE_S))
        await asyncio.sleep(0.1)
        client.close()
        with pytest.raises(Closed):
            await task

    thread = threading.Thread(target=use)
    thread.start()
    asyncio.run(use_async())
    thread.join()

    assert [type(error) for error in errors] == [Closed]


def test_racing_puts_leave_whole_contents(three_nodes, path):
    contents = [bytes([index]) * (70_000 * index + 1) for index in range(1, 5)]
    seen = []
    is_over = threading.Event()

    def put(content: bytes) -> None:
        with three_nodes.client(timeout_s=PATIENCE_S) as client:
            for _ in range(15):
                with contextlib.suppress(Unavailable):
                    client.put(path, content, chunk_bytes=64 << 10)

    def get() -> None:
        with three_nodes.client(timeout_s=PATIENCE_S) as client:
            while not is_over.is_set():
                seen.append(client.get(path))

    reader = threading.Thread(target=get)
    writers = [threading.Thread(target=put, args=(content,)) for content in contents]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    reader.join()

    assert all(content in (None, b"", *contents) for content in seen)
    assert any(seen)


# ---- nodes that go away --------------------------------------------------------------------------


def test_a_dead_node_costs_misses_not_errors():
    keys = [f"key-{index}".encode() for index in range(60)]
    with LocalNodes(3) as nodes, nodes.client(timeout_s=PATIENCE_S) as client:
        pages = client.pages("ns")
        pages.put(keys, keys)
        nodes.stop(1)
        into = [bytearray(10) for _ in keys]
        sizes = pages.get(keys, into).sizes

        there = [index for index, size in enumerate(sizes) if size is not None]
        assert 0 < len(there) < 60
        assert all(into[index][: sizes[index]] == keys[index] for index in there)


def test_a_node_that_comes_back_serves_again():
    keys = [f"key-{index}".encode() for index in range(60)]
    with LocalNodes(3) as nodes, nodes.client(timeout_s=PATIENCE_S) as client:
        pages = client.pages("ns")
        pages.put(keys, keys)
        nodes.stop(1)
        pages.exists(keys)
        nodes.start(1)

        assert until(lambda: all(pages.put(keys, keys)) and all(pages.exists(keys).present))
