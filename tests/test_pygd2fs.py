"""pygd2fs: the published names, signatures and meanings."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import inspect
import mmap
import random
import select
import threading
import time

import pytest

import pygd2fs
from pygd2fs import SGE, InspectStatus

PATIENCE_MS = 20_000


class Memory:
    """A registered piece of memory."""

    def __init__(self, client: pygd2fs.Client, size: int, content: bytes = b"") -> None:
        self.buffer = ctypes.create_string_buffer(content, size)
        self.address = ctypes.addressof(self.buffer)
        self.iomem = client.RegIOMEM(self.address, size)

    def sge(self, start: int, length: int) -> SGE:
        return SGE(self.address + start, length, self.iomem)


@pytest.fixture(scope="module")
def xfer(three_nodes):
    return pygd2fs.Client(
        f"gd2fs://{three_nodes.cp}", "tcp://127.0.0.1", three_nodes.cluster, iothreads=2, streams=2
    )


def finish(xfer: pygd2fs.Client, request: pygd2fs.Request) -> pygd2fs.Request:
    """Wait for one request that is the only one under way."""
    assert request is not None
    assert xfer.Wait(PATIENCE_MS) == [request]
    return request


def store(xfer: pygd2fs.Client, path: str, content: bytes) -> None:
    memory = Memory(xfer, len(content), content)
    assert finish(xfer, xfer.Create(path, 0, 0, "")).Status() == 0
    write = xfer.Write(path, 0, [memory.sge(0, len(content))], 0, "")
    assert finish(xfer, write).Status() == 0


def code_of(request: pygd2fs.Request) -> int:
    return InspectStatus(request.Status())[3]


def test_signatures_are_the_published_ones():
    parameters = inspect.signature(pygd2fs.Client).parameters

    assert list(parameters) == [
        "cpaddr", "dpaddr", "cluster", "iothreads", "memthreads", "streams",
    ]  # fmt: skip
    assert [list(inspect.signature(getattr(pygd2fs.Client, name)).parameters)[1:] for name in (
        "Create", "Read", "Write", "Wait", "RegIOMEM", "DeregIOMEM",
    )] == [
        ["path", "flags", "mode", "extra"],
        ["path", "offset", "sges", "flags", "extra"],
        ["path", "offset", "sges", "flags", "extra"],
        ["timeout_ms"],
        ["address", "length"],
        ["iomem"],
    ]  # fmt: skip


def test_read_fills_the_scatter_list_in_order(xfer, path):
    content = random.Random(0).randbytes(5_000_000)
    store(xfer, path, content)
    memory = Memory(xfer, len(content))
    half = len(content) // 2
    read = xfer.Read(path, 0, [memory.sge(half, half), memory.sge(0, half)], 0, "")

    assert finish(xfer, read).Value() == len(content)
    assert memory.buffer.raw == content[half:] + content[:half]


def test_write_overwrites_a_range(xfer, path):
    store(xfer, path, b"0123456789")
    memory = Memory(xfer, 10, b"abc")
    finish(xfer, xfer.Write(path, 4, [memory.sge(0, 3)], 0, ""))
    finish(xfer, xfer.Read(path, 0, [memory.sge(0, 10)], 0, ""))

    assert memory.buffer.raw == b"0123abc789"


def test_wait_returns_the_objects_that_were_started(xfer, path):
    store(xfer, path, b"0123456789")
    memory = Memory(xfer, 100)
    started = {xfer.Read(path, 0, [memory.sge(10 * n, 10)], 0, ""): n for n in range(10)}
    finished = []
    while len(finished) < 10:
        finished += xfer.Wait(PATIENCE_MS)

    assert sorted(started[request] for request in finished) == list(range(10))
    assert all(request.Status() == 0 and request.Value() == 10 for request in finished)


def test_wait_polls_with_zero(xfer):
    assert xfer.Wait(0) == []


def test_wait_ends_after_its_time(xfer):
    start = time.monotonic()

    assert xfer.Wait(50) == []
    assert time.monotonic() - start >= 0.045


def test_wait_blocks_until_one_is_done(xfer, path):
    results = []
    thread = threading.Thread(target=lambda: results.extend(xfer.Wait(-1)))
    thread.start()
    request = xfer.Create(path, 0, 0, "")
    thread.join(PATIENCE_MS / 1e3)

    assert results == [request]


def test_the_descriptor_is_readable_while_a_completion_waits(xfer, path):
    poll = select.poll()
    poll.register(xfer.GetFd(), select.POLLIN)
    assert poll.poll(0) == []
    xfer.Create(path, 0, 0, "")

    assert poll.poll(PATIENCE_MS)
    assert len(xfer.Wait(0)) == 1
    assert poll.poll(0) == []


def test_a_short_read_is_a_small_value(xfer, path):
    store(xfer, path, b"0123456789")
    memory = Memory(xfer, 10)
    read = finish(xfer, xfer.Read(path, 7, [memory.sge(0, 10)], 0, ""))

    assert (read.Status(), read.Value()) == (0, 3)


def test_a_hole_reads_as_zeros(xfer, path):
    finish(xfer, xfer.Create(path, 0, 0, ""))
    memory = Memory(xfer, 30, b"x" * 30)
    finish(xfer, xfer.Write(path, 20, [memory.sge(0, 10)], 0, ""))
    finish(xfer, xfer.Read(path, 0, [memory.sge(0, 30)], 0, ""))

    assert memory.buffer.raw == bytes(20) + b"x" * 10


def test_a_missing_file_is_enoent(xfer, path):
    memory = Memory(xfer, 10)
    read = finish(xfer, xfer.Read(path, 0, [memory.sge(0, 10)], 0, ""))
    write = finish(xfer, xfer.Write(path, 0, [memory.sge(0, 10)], 0, ""))

    assert (code_of(read), code_of(write)) == (errno.ENOENT, errno.ENOENT)
    assert (read.Value(), write.Value()) == (0, 0)


def test_create_of_what_is_there_succeeds_and_keeps_it(xfer, path):
    store(xfer, path, b"content")
    memory = Memory(xfer, 7)

    assert finish(xfer, xfer.Create(path, 0, 0, "")).Status() == 0
    assert finish(xfer, xfer.Read(path, 0, [memory.sge(0, 7)], 0, "")).Value() == 7


@pytest.mark.parametrize(("start", "length"), [(-1, 5), (0, 11), (10, 1), (11, 0)])
def test_memory_outside_its_registration_is_not_started(xfer, path, start, length):
    memory = Memory(xfer, 10)

    assert xfer.Read(path, 0, [memory.sge(start, length)], 0, "") is None
    assert xfer.Write(path, 0, [memory.sge(start, length)], 0, "") is None


def test_deregistered_memory_is_not_started(xfer, path):
    memory = Memory(xfer, 10)
    xfer.DeregIOMEM(memory.iomem)

    assert xfer.Read(path, 0, [memory.sge(0, 10)], 0, "") is None


def test_memory_without_a_registration_is_not_started(xfer, path):
    buffer = ctypes.create_string_buffer(10)

    assert xfer.Read(path, 0, [SGE(ctypes.addressof(buffer), 10, None)], 0, "") is None


def test_deregistration_waits_for_what_is_under_way(xfer, path):
    store(xfer, path, bytes(4 << 20))
    memory = Memory(xfer, 4 << 20)
    read = xfer.Read(path, 0, [memory.sge(0, 4 << 20)], 0, "")
    xfer.DeregIOMEM(memory.iomem)

    assert read.Value() == 4 << 20
    assert xfer.Wait(0) == [read]


@pytest.mark.parametrize(("address", "length"), [(0, 10), (10, 0), (-5, 10), (2**64 - 5, 10)])
def test_what_is_no_memory_is_not_registered(xfer, address, length):
    assert xfer.RegIOMEM(address, length) is None


@pytest.mark.parametrize(
    ("start", "length", "is_memory"), [(0, 1, False), (2, 1, False), (1, 1, True), (0, 3, False)]
)
def test_memory_that_is_not_mapped_or_not_writable_is_not_registered(
    xfer, start, length, is_memory
):
    """Three pages: one unmapped, one to write, one to read."""
    page = mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    nothing = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, ctypes.c_size_t(3 * page), mmap.PROT_READ, nothing, -1, 0)
    libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(page))
    middle = ctypes.c_void_p(address + page)
    libc.mprotect(middle, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)
    iomem = xfer.RegIOMEM(address + start * page, length * page)
    libc.munmap(middle, ctypes.c_size_t(2 * page))

    assert (iomem is not None) == is_memory


@pytest.mark.parametrize("bad", ["", "relative", "/ns/../file", "/ns"])
def test_a_bad_path_is_not_started_or_invalid(xfer, bad):
    request = xfer.Create(bad, 0, 0, "")

    assert request is None or code_of(finish(xfer, request)) == errno.EINVAL


def test_awaited_requests_have_ended(xfer, path):
    store(xfer, path, b"0123456789")
    memory = Memory(xfer, 10, b"abc")

    async def use() -> list[tuple[int, int]]:
        write = await xfer.WriteAsync(path, 0, [memory.sge(0, 3)], 0)
        read = await xfer.ReadAsync(path, 2, [memory.sge(0, 10)], 0)
        return [(request.Status(), request.Value()) for request in (write, read)]

    assert asyncio.run(use()) == [(0, 3), (0, 8)]
    assert memory.buffer.raw[:8] == b"c3456789"


def test_an_awaited_request_that_cannot_be_started_has_a_status(xfer, path):
    request = asyncio.run(xfer.ReadAsync(path, 0, [SGE(1, 10, None)], 0))

    assert code_of(request) == errno.EINVAL


def test_waiting_and_awaiting_do_not_take_from_each_other(xfer, path):
    store(xfer, path, b"0123456789")
    memory = Memory(xfer, 800)

    async def use() -> set[int]:
        reads = (xfer.ReadAsync(path, 0, [memory.sge(n * 10, 10)], 0) for n in range(40))
        return {request.Value() for request in await asyncio.gather(*reads)}

    results = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(use())))
    thread.start()
    started = {xfer.Read(path, 0, [memory.sge(n * 10, 10)], 0, "") for n in range(40, 80)}
    finished = []
    while len(finished) < 40:
        finished += xfer.Wait(PATIENCE_MS)
    thread.join()

    assert results == [{10}]
    assert set(finished) == started


def test_success_is_explained():
    assert InspectStatus(0)[3] == 0


def test_every_status_is_explained():
    from gd2fs.outcome import Status
    from pygd2fs.request import encode_status

    for status in set(Status) - {Status.OK, Status.HAVE}:
        code, name, text, number = InspectStatus(encode_status(status))
        assert (isinstance(name, str), isinstance(text, str)) == (True, True)
        assert code != 0
        assert number == encode_status(status) & 0xFF in errno.errorcode
