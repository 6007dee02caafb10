"""Jobs between vLLM's pool and the store: reported once, in time, and never while bytes move."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from gd2fs.engines.vllm.transfers import Job, Pool, Transfers

CHUNK = 4096
CHUNKS = 32
WAIT_S = 10.0


class Pages:
    """A store in memory that can be made to wait and to fail."""

    def __init__(self) -> None:
        self.pages: dict[bytes, bytes] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.calls = 0

    def get(
        self, keys: Sequence[bytes], into: Sequence[tuple[int, int]], *, deadline_s: float | None
    ) -> list[bool]:
        self._wait(deadline_s)
        found = []
        for key, (address, size) in zip(keys, into, strict=True):
            page = self.pages.get(key)
            if page is not None:
                ctypes.memmove(address, page, size)
            found.append(page is not None)
        return found

    def put(
        self, keys: Sequence[bytes], values: Sequence[tuple[int, int]], *, deadline_s: float | None
    ) -> list[bool]:
        self._wait(deadline_s)
        for key, (address, size) in zip(keys, values, strict=True):
            self.pages[key] = ctypes.string_at(address, size)
        return [True] * len(keys)

    def _wait(self, deadline_s: float | None) -> None:
        assert deadline_s is not None and deadline_s > 0
        self.calls += 1
        if not self.gate.wait(deadline_s):
            raise TimeoutError("a store that raises is a miss all the same")


@pytest.fixture
def memory() -> bytearray:
    return bytearray(CHUNK * CHUNKS)


@pytest.fixture
def pages() -> Pages:
    return Pages()


@contextmanager
def running(pages: Pages, memory: bytearray, *, queue_bytes: int = 1 << 30) -> Iterator[Transfers]:
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    transfers = Transfers(
        pages,
        Pool(address, CHUNK, CHUNKS),
        load_threads=1,
        store_threads=1,
        store_queue_bytes=queue_bytes,
    )
    try:
        yield transfers
    finally:
        pages.gate.set()
        assert transfers.close()


def job(number: int, slots: range, *, is_load: bool, seconds: float = WAIT_S) -> Job:
    names = [b"page %d" % slot for slot in slots]
    now = time.monotonic()
    return Job(number, names, names, list(slots), is_load, now, now + seconds)


def until(transfers: Transfers, count: int) -> list[Job]:
    found: list[Job] = []
    wait(lambda: found.extend(transfers.finished()) or len(found) >= count)
    return found


def wait(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_what_was_stored_is_loaded(pages: Pages, memory: bytearray) -> None:
    memory[CHUNK : 2 * CHUNK] = b"\x07" * CHUNK
    with running(pages, memory) as transfers:
        transfers.store(job(1, range(1, 2), is_load=False))
        until(transfers, 1)
        memory[CHUNK : 2 * CHUNK] = bytes(CHUNK)
        transfers.load(job(2, range(1, 2), is_load=True))
        (done,) = until(transfers, 1)

    assert (done.number, done.done, memory[CHUNK]) == (2, [True], 7)


def test_each_key_has_its_own_outcome(pages: Pages, memory: bytearray) -> None:
    pages.pages = {b"page 0": bytes(CHUNK), b"page 2": bytes(CHUNK)}
    with running(pages, memory) as transfers:
        transfers.load(job(1, range(3), is_load=True))
        (done,) = until(transfers, 1)

    assert done.done == [True, False, True]


def test_a_job_that_waited_past_its_deadline_is_not_begun(pages: Pages, memory: bytearray) -> None:
    with running(pages, memory) as transfers:
        transfers.load(job(1, range(1), is_load=True, seconds=-1.0))
        (done,) = until(transfers, 1)

    assert (done.done, pages.calls) == ([False], 0)


def test_a_job_is_not_reported_while_its_call_runs(pages: Pages, memory: bytearray) -> None:
    pages.gate.clear()
    with running(pages, memory) as transfers:
        transfers.load(job(1, range(1), is_load=True))
        wait(lambda: pages.calls == 1)
        early = transfers.finished()
        pages.gate.set()

        assert (early, len(until(transfers, 1))) == ([], 1)


def test_a_store_that_raises_is_a_miss(pages: Pages, memory: bytearray) -> None:
    pages.gate.clear()
    with running(pages, memory) as transfers:
        transfers.load(job(1, range(2), is_load=True, seconds=0.05))
        (done,) = until(transfers, 1)

        assert done.done == [False, False]


def test_stores_over_the_limit_are_shed_and_loads_never(pages: Pages, memory: bytearray) -> None:
    pages.gate.clear()
    with running(pages, memory, queue_bytes=3 * CHUNK) as transfers:
        taken = [transfers.store(job(at, range(at, at + 2), is_load=False)) for at in range(3)]
        (shed_1, shed_2) = transfers.finished()
        for at in range(10, 20):
            transfers.load(job(at, range(at, at + 1), is_load=True))
        pages.gate.set()
        rest = until(transfers, 11)

    assert taken == [True, False, False]
    assert (shed_1.is_shed, shed_2.done) == (True, [False, False])
    assert sum(each.is_load for each in rest) == 10


def test_a_job_larger_than_the_limit_is_stored_when_nothing_waits(
    pages: Pages, memory: bytearray
) -> None:
    with running(pages, memory, queue_bytes=CHUNK) as transfers:
        assert transfers.store(job(1, range(4), is_load=False))
        until(transfers, 1)

        wait(lambda: not transfers.queued_store_bytes)


def test_draining_ends_what_has_not_begun_and_waits_for_the_rest(
    pages: Pages, memory: bytearray
) -> None:
    pages.gate.clear()
    with running(pages, memory) as transfers:
        for at in range(4):
            transfers.load(job(at, range(at, at + 1), is_load=True))
        wait(lambda: pages.calls == 1)
        is_early = transfers.drain(0.01)
        threading.Timer(0.05, pages.gate.set).start()
        is_done = transfers.drain(WAIT_S)

    assert (is_early, is_done, pages.calls) == (False, True, 1)
    assert len(transfers.finished()) == 4
