"""Advised: a file that is brought into memory ahead of its reader, and taken out of it again."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from statistics import median

from gd2fs.bench.board import Stage
from gd2fs.bench.tier.plan import BLOCK_BYTES, PAGE_BYTES, Settings
from gd2fs.bench.tier.tiered_node import POLL_S, TieredNode
from gd2fs.errors import Unavailable

PATH = "/advised/file"
NUMBER_BYTES = 8  # at the head of each chunk: no two are alike
QUIET_S = 0.3  # without a byte from disk: nothing is on its way any more


@dataclass(frozen=True, slots=True)
class WillNeed:
    """Of each round: loading a cold file, reading it, reading it once more. Bytes a second."""

    load: tuple[float, ...]
    read: tuple[float, ...]
    warm: tuple[float, ...]
    loaded_by_reads: int  # bytes that were on disk still when they were read; sum of all rounds

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: the first read to the second."""
        return median([first / again for first, again in zip(self.read, self.warm, strict=True)])


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Of each round: how long bytes still came from disk after a cancel, and how many."""

    ms: tuple[float, ...]
    bytes_after: tuple[int, ...]
    bytes_before: tuple[int, ...]

    @property
    def worst_ms(self) -> float:
        """Of all rounds."""
        return max(self.ms)


@dataclass(frozen=True, slots=True)
class DontNeed:
    """Ranges that were let go, and what left memory, in bytes."""

    wanted: tuple[int, ...]
    freed: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Each freed what it should."""
        return self.wanted == self.freed


class AdvisedFile:
    """One file of a node, in chunks of 4 MiB; on disk once it is made."""

    def __init__(self, node: TieredNode, file_bytes: int) -> None:
        self._node = node
        self.bytes = file_bytes
        self._into = bytearray(b"\1" * file_bytes)
        chunk = random.Random(4).randbytes(PAGE_BYTES - NUMBER_BYTES)
        numbers = range(file_bytes // PAGE_BYTES)
        content = b"".join(each.to_bytes(NUMBER_BYTES, "little") + chunk for each in numbers)
        node.client.put(PATH, content, chunk_bytes=PAGE_BYTES)
        if node.client.sync([PATH]) != ["disk"]:
            raise Unavailable(f"`{PATH}` has not reached the disk", hint="look at its metrics")

    def cool(self) -> None:
        """Take it out of memory."""
        self._node.client.fadvise(PATH, "dontneed").wait()

    def warm(self) -> float:
        """Load all of it; bytes a second."""
        begin_s = time.perf_counter()
        advised = self._node.client.fadvise(PATH, "willneed")
        if advised.wait() != self.bytes:
            raise Unavailable(f"`{PATH}` is not all in memory", hint="look at the node's metrics")
        return self.bytes / (time.perf_counter() - begin_s)

    def read(self) -> float:
        """Copy all of it; bytes a second."""
        begin_s = time.perf_counter()
        if self._node.client.read(PATH, 0, self._into) != self.bytes:
            raise Unavailable(f"`{PATH}` was missed", hint="look at the node's metrics")
        return self.bytes / (time.perf_counter() - begin_s)

    def cancel_midway(self, share: float) -> tuple[float, int, int]:
        """Begin to load all of it, and cancel once this share has come: ms until the last byte of
        all did, bytes that came after, and before."""
        self.cool()
        start = self._node.counts()["nvme_read_bytes"]
        advised = self._node.client.fadvise(PATH, "willneed")
        enough = start + int(self.bytes * share)
        self._node.wait_until(lambda counts: counts["nvme_read_bytes"] >= enough, "loading")
        at_cancel, begin_s = self._node.counts()["nvme_read_bytes"], time.perf_counter()
        advised.cancel()
        last, last_s = at_cancel, begin_s
        while time.perf_counter() - last_s < QUIET_S:
            now = self._node.counts()["nvme_read_bytes"]
            if now != last:
                last, last_s = now, time.perf_counter()
            time.sleep(POLL_S)
        return (last_s - begin_s) * 1e3, last - at_cancel, at_cancel - start

    def free(self, offset: int, length: int) -> int:
        """Let go of a range; how many bytes fewer are in memory after it."""
        before = self._node.counts()["live_bytes"]  # the former copy of a piece counts no more
        self._node.client.fadvise(PATH, "dontneed", offset=offset, length=length).wait()
        return before - self._node.counts()["live_bytes"]


def measure_willneed(
    settings: Settings, node: TieredNode, file: AdvisedFile, stage: Stage
) -> WillNeed:
    """Cool it, load it, read it twice."""
    load, read, warm, by_reads = [], [], [], 0
    for _ in range(settings.rounds):
        file.cool()
        load.append(file.warm())
        before = node.counts()["loaded_bytes"]
        read.append(file.read())
        by_reads += node.counts()["loaded_bytes"] - before
        warm.append(file.read())
        stage.step(f"{read[-1] / warm[-1]:.2f}")
    return WillNeed(tuple(load), tuple(read), tuple(warm), by_reads)


def measure_cancel(settings: Settings, file: AdvisedFile, stage: Stage) -> Cancelled:
    """Cancel while the file is being loaded, anywhere in its first half."""
    dice, rounds = random.Random(6), []
    for _ in range(settings.rounds):
        rounds.append(file.cancel_midway(dice.uniform(0.05, 0.5)))
        stage.step(f"{rounds[-1][0]:.1f} ms")
    return Cancelled(*(tuple(column) for column in zip(*rounds, strict=True)))


def measure_dontneed(settings: Settings, file: AdvisedFile, stage: Stage) -> DontNeed:
    """Free random ranges of whole blocks, and look at the memory."""
    dice, wanted, freed = random.Random(5), [], []
    blocks = file.bytes // BLOCK_BYTES
    for _ in range(settings.rounds):
        file.warm()
        first = dice.randrange(blocks - 1)
        count = dice.randrange(1, blocks - first)
        wanted.append(count * BLOCK_BYTES)
        freed.append(file.free(first * BLOCK_BYTES, count * BLOCK_BYTES))
        stage.step(f"{freed[-1]} of {wanted[-1]} bytes")
    return DontNeed(tuple(wanted), tuple(freed))
