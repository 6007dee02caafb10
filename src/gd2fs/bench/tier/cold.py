"""Cold: pages on disk alone, read through a node beside fio; and three times the memory."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gd2fs.bench.board import Stage
from gd2fs.bench.disk.fio import Fio, Way
from gd2fs.bench.disk.run import HUGE_ARENAS, has_huge_pages
from gd2fs.bench.tier.plan import CALL_PAGES, CALLERS, DEPTH, OVER, PAGE_BYTES, Settings
from gd2fs.bench.tier.tiered_node import PageSet, TieredNode, buffers
from gd2fs.errors import Unavailable

WAYS = tuple(Way(engine, depth) for engine in ("io_uring", "libaio", "psync") for depth in (4, 16))
TRIAL_SHARE = 0.25  # of a reading's seconds, for each of fio's ways


@dataclass(frozen=True, slots=True)
class ColdReads:
    """Bytes a second of each round, one after the other."""

    node: tuple[float, ...]
    fio: tuple[float, ...]
    way: str  # fio's best
    is_uring: bool  # of the node
    is_huge: bool  # fio's memory

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median([ours / fio for ours, fio in zip(self.node, self.fio, strict=True)])


@dataclass(frozen=True, slots=True)
class OverMemory:
    """Reads of a working set of three times the memory."""

    reads: int
    hits: int
    wrong: int  # of these, with bytes that were never put


def measure_cold(
    settings: Settings, folder: Path, node: TieredNode, pages: PageSet, stage: Stage
) -> ColdReads:
    """Read all pages in a random order, and fio its file, in turn."""
    is_huge = settings.arena in HUGE_ARENAS and has_huge_pages(DEPTH * PAGE_BYTES)
    is_uring = bool(node.counts()["nvme_is_uring"])
    fio = Fio(
        folder,
        file_bytes=settings.pages * PAGE_BYTES,
        block_bytes=PAGE_BYTES,
        depth=DEPTH,
        is_uring=is_uring,
        is_huge=is_huge,
    )
    way = fio.best_of(WAYS, settings.seconds * TRIAL_SHARE)
    into, dice = [buffers(CALL_PAGES) for _ in range(CALLERS)], random.Random(2)
    ours, theirs = [], []
    for _ in range(settings.rounds):
        theirs.append(fio.read(settings.seconds, way))
        ours.append(_cold_rate(settings, node, pages, into, dice))
        stage.step(f"{ours[-1] / theirs[-1]:.2f} of fio")
    fio.close()
    return ColdReads(tuple(ours), tuple(theirs), str(way), is_uring, is_huge)


def _cold_rate(
    settings: Settings,
    node: TieredNode,
    pages: PageSet,
    into: list[list[bytearray]],
    dice: random.Random,
) -> float:
    """What comes from disk, a second; a pass over all pages after the other."""
    took_s, loaded = 0.0, 0
    with ThreadPoolExecutor(CALLERS) as callers:
        while took_s < settings.seconds:
            pages.cool()
            order = dice.sample(range(len(pages.keys)), len(pages.keys))
            calls = iter([order[at : at + CALL_PAGES] for at in range(0, len(order), CALL_PAGES)])
            before = node.counts()["loaded_bytes"]
            begin_s = time.perf_counter()
            done = [callers.submit(_read_calls, pages, calls, own) for own in into]
            for each in done:
                each.result()
            took_s += time.perf_counter() - begin_s
            loaded += node.counts()["loaded_bytes"] - before
    return loaded / took_s


def _read_calls(pages: PageSet, calls: Iterator[list[int]], into: list[bytearray]) -> None:
    """One caller: takes the next call whenever it is done with one."""
    for wanted in calls:
        if pages.get(wanted, into) != len(wanted):
            raise Unavailable("a page was missed", hint="look at the disk and its metrics")


def measure_over_memory(settings: Settings, pages: PageSet, stage: Stage) -> OverMemory:
    """Read pages at random, as many as there are and again, and compare each with what was put."""
    [into], dice = buffers(1), random.Random(3)
    reads = hits = wrong = 0
    for _ in range(OVER * len(pages.keys) // 2):
        number = dice.randrange(len(pages.keys))
        reads += 1
        if pages.get([number], [into]) == 1:
            hits += 1
            wrong += into != pages.bytes_of(number)
    stage.step(f"{hits} of {reads}")
    return OverMemory(reads, hits, wrong)
