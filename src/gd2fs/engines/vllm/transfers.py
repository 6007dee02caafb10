"""Transfers: jobs between the engine's pool of chunks and the store, on threads that only wait.

A thread takes a job, makes one native call for all of its pages and reports what came of it; while
the call runs, the interpreter's lock is free. A job is reported once, and never before the last
call that touches its chunks has ended: from then on the engine uses them for something else.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

log = logging.getLogger(__name__)

BATCH_BYTES = 64 << 20  # of one call: what came before a deadline is kept in such steps
CLOSE_S = 30.0  # beyond all deadlines, that an end of the threads may take


class PageStore(Protocol):
    """What is used of ``gd2fs.engines.store.EngineStore``."""

    def get(
        self, keys: Sequence[bytes], into: Sequence[tuple[int, int]], *, deadline_s: float | None
    ) -> list[bool]: ...
    def put(
        self, keys: Sequence[bytes], values: Sequence[tuple[int, int]], *, deadline_s: float | None
    ) -> list[bool]: ...


@dataclass(frozen=True, slots=True)
class Pool:
    """The engine's chunks in host memory: ``count`` of them, ``chunk_bytes`` each, in one piece."""

    address: int
    chunk_bytes: int
    count: int

    @property
    def whole(self) -> tuple[int, int]:
        """Address and length of all."""
        return self.address, self.count * self.chunk_bytes

    def chunk(self, slot: int) -> tuple[int, int]:
        """Address and length of one."""
        assert 0 <= slot < self.count, f"slot {slot} of {self.count}"
        return self.address + slot * self.chunk_bytes, self.chunk_bytes


@dataclass(slots=True)
class Job:
    """One transfer.

    Attributes:
        number: The engine's.
        keys: The engine's, in the order of their tokens.
        pages: The keys in the store.
        slots: Where they lie in the pool.
        is_load: From the store into the pool.
        begin: When it was handed in.
        end: Its deadline, by the same clock.
        done: Of each key whether it is where it belongs.
        seconds: From its beginning to its end.
        is_shed: It was not even tried.
    """

    number: int
    keys: Sequence[bytes]
    pages: Sequence[bytes]
    slots: Sequence[int]
    is_load: bool
    begin: float
    end: float
    done: list[bool] = field(default_factory=list)
    seconds: float = 0.0
    is_shed: bool = False


class Transfers:
    """Jobs under way. ``submit``, ``finished`` and the like are for one thread.

    Args:
        store: Where pages go to and come from.
        pool: The engine's memory; it outlives this.
        load_threads: Jobs that are loaded at the same time.
        store_threads: Jobs that are stored at the same time.
        store_queue_bytes: Of stores that are not done; what is over is shed. Loads never are.
    """

    def __init__(
        self,
        store: PageStore,
        pool: Pool,
        *,
        load_threads: int,
        store_threads: int,
        store_queue_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._pool = pool
        self._store_queue_bytes = store_queue_bytes
        self._clock = clock
        self._loads: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._stores: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._changed = threading.Condition()  # Guards: the four below. Held for arithmetic only.
        self._under_way = 0
        self._waiting_load_bytes = 0
        self._queued_store_bytes = 0
        self._is_draining = False
        self._batch_pages = max(1, BATCH_BYTES // pool.chunk_bytes)
        self._threads = [
            threading.Thread(target=self._work, args=(jobs,), name=name, daemon=True)
            for jobs, name, count in (
                (self._loads, "gd2fs-load", load_threads),
                (self._stores, "gd2fs-store", store_threads),
            )
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def queued_store_bytes(self) -> int:
        """Of stores that are not done."""
        return self._queued_store_bytes

    @property
    def waiting_load_bytes(self) -> int:
        """Of loads that no thread has taken yet."""
        return self._waiting_load_bytes

    def load(self, job: Job) -> None:
        """Begin a load. It is never shed: the engine has set memory aside for it."""
        assert job.is_load
        with self._changed:
            self._under_way += 1
            self._waiting_load_bytes += self._size_of(job)
        self._loads.put(job)

    def store(self, job: Job) -> bool:
        """Begin a store, or report it as shed when too much waits already."""
        size = self._size_of(job)
        with self._changed:
            is_taken = not self._queued_store_bytes or (
                self._queued_store_bytes + size <= self._store_queue_bytes
            )
            if is_taken:
                self._under_way += 1
                self._queued_store_bytes += size
        if is_taken:
            self._stores.put(job)
        else:
            self.shed(job)
        return is_taken

    def shed(self, job: Job) -> None:
        """Report a job without trying it."""
        job.done = [False] * len(job.keys)
        job.is_shed = True
        self._finished.put(job)

    def finished(self) -> list[Job]:
        """Jobs that ended since the last call."""
        jobs = []
        while True:
            try:
                jobs.append(self._finished.get_nowait())
            except queue.Empty:
                return jobs

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job is under way; those that have not begun fail. Whether none is left."""
        with self._changed:
            self._is_draining = True
            try:
                return self._changed.wait_for(lambda: not self._under_way, timeout_s)
            finally:
                self._is_draining = False

    def close(self) -> bool:
        """End the threads, after ``drain``. Whether none of them can touch the pool any more."""
        for jobs in (self._loads, self._stores):
            for _ in self._threads:
                jobs.put(None)
        end = self._clock() + CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, end - self._clock()))
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, jobs: queue.SimpleQueue[Job | None]) -> None:
        while (job := jobs.get()) is not None:
            if job.is_load:
                with self._changed:
                    self._waiting_load_bytes -= self._size_of(job)
            try:
                self._move(job)
            except Exception:
                log.exception("job %d failed", job.number)
            self._end(job)

    def _move(self, job: Job) -> None:
        move = self._store.get if job.is_load else self._store.put
        for at in range(0, len(job.pages), self._batch_pages):
            left_s = job.end - self._clock()
            if left_s <= 0 or self._is_draining:
                return
            part = slice(at, at + self._batch_pages)
            chunks = [self._pool.chunk(slot) for slot in job.slots[part]]
            job.done += move(job.pages[part], chunks, deadline_s=left_s)

    def _end(self, job: Job) -> None:
        job.done += [False] * (len(job.keys) - len(job.done))
        job.seconds = self._clock() - job.begin
        self._finished.put(job)
        with self._changed:
            self._under_way -= 1
            if not job.is_load:
                self._queued_store_bytes -= self._size_of(job)
            self._changed.notify_all()

    def _size_of(self, job: Job) -> int:
        return len(job.keys) * self._pool.chunk_bytes
