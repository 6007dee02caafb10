"""Tiered node: a real node with a disk below its memory, in this process, and a client of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from gd2fs import _core
from gd2fs.bench.tier.plan import PAGE_BYTES
from gd2fs.client import Client
from gd2fs.errors import Unavailable
from gd2fs.testing.nodes import LocalNodes

DEADLINE_S = 120.0  # of a single call, and of a wait
POLL_S = 0.0005


class TieredNode:
    """A context manager.

    Args:
        folder: For its disk.
        memory_bytes: Of its arena.
        disk_bytes: That the disk may take.
        arena: As ``gd2fs serve --arena``.
    """

    def __init__(self, folder: Path, *, memory_bytes: int, disk_bytes: int, arena: str) -> None:
        self._nodes = LocalNodes(
            memory_bytes=memory_bytes, arena=arena, nvme=[(str(folder), disk_bytes)]
        )

    def __enter__(self) -> TieredNode:
        self._nodes.__enter__()
        self.client = Client(self._nodes.cp, cluster=self._nodes.cluster, timeout_s=DEADLINE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._nodes.__exit__(kind, error, trace)

    @property
    def server(self) -> _core.Server:
        """The native server."""
        server = self._nodes.servers[0]
        assert server is not None, "it runs as long as the context"
        return server

    def counts(self) -> dict[str, int]:
        """Of the node, now."""
        return self.server.counts()

    def wait_until(self, is_so: Callable[[dict[str, int]], bool], what: str) -> None:
        """Raise Unavailable when its counts do not come to that in time."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not is_so(self.counts()):
            if time.monotonic() > deadline_s:
                raise Unavailable(f"{what}: not within {DEADLINE_S:.0f} s", hint="look at the disk")
            time.sleep(POLL_S)


class PageSet:
    """Pages of 4 MiB under one namespace, each with bytes of its own.

    Args:
        node: Where they lie.
        namespace: Of all of them.
        count: How many.
    """

    def __init__(self, node: TieredNode, namespace: str, count: int) -> None:
        self.keys = [f"page{number}" for number in range(count)]
        self._pages = node.client.pages(namespace)
        self._block = random.Random(1).randbytes(PAGE_BYTES)

    def bytes_of(self, number: int) -> bytes:
        """What was put under the key of this number."""
        head = number.to_bytes(8, "little")
        return head + self._block[8 + number :] + self._block[:number]

    def put(self) -> None:
        """Store them, one after the other. Raises Unavailable where one is not taken."""
        for number, key in enumerate(self.keys):
            if self._pages.put([key], [self.bytes_of(number)]) != [True]:
                raise Unavailable(f"page {number} was not stored", hint="look at the disk")

    def drop(self) -> None:
        """Forget them."""
        self._pages.drop(self.keys)

    def cool(self) -> None:
        """Take all of them out of memory; what is not on disk yet is written first."""
        self._pages.fadvise(self.keys, "dontneed").wait()

    def get(self, numbers: Sequence[int], into: Sequence[bytearray]) -> int:
        """Copy these pages; how many leading ones were there."""
        keys = [self.keys[number] for number in numbers]
        return self._pages.get(keys, into[: len(keys)]).leading


def buffers(count: int) -> list[bytearray]:
    """Of a page each, with their memory in place."""
    return [bytearray(b"\1" * PAGE_BYTES) for _ in range(count)]


def read_for(seconds: float, read: Callable[[], int]) -> float:
    """Call ``read`` for so long; the bytes a second that it says."""
    begin_s = now_s = time.perf_counter()
    total = 0
    while now_s - begin_s < seconds:
        total += read()
        now_s = time.perf_counter()
    return total / (now_s - begin_s)
