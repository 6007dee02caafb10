"""Beside: reads of memory while bytes go to disk at a limited rate, and while none do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from gd2fs.bench.board import Stage
from gd2fs.bench.tier.plan import CALL_PAGES, DIRTY_SHARE, HOT_PAGES, PAGE_BYTES, Settings
from gd2fs.bench.tier.tiered_node import PageSet, TieredNode, buffers, read_for
from gd2fs.errors import Unavailable

CRAWL = 1 << 20  # the slowest that a disk is written to


@dataclass(frozen=True, slots=True)
class BesideDemotion:
    """Bytes a second of each round, one after the other."""

    alone: tuple[float, ...]
    beside: tuple[float, ...]
    written: tuple[float, ...]  # to disk meanwhile

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median([with_it / alone for with_it, alone in self._pairs()])

    def _pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.beside, self.alone, strict=True))


def measure_beside(settings: Settings, node: TieredNode, stage: Stage) -> BesideDemotion:
    """Read the same pages from memory with and without writes to disk, first the one, then the
    other first. What is written was put before: nothing but the disk's work is beside them."""
    hot = PageSet(node, "hot", HOT_PAGES)
    hot.put()
    into = buffers(CALL_PAGES)
    _hot_rate(settings, hot, into)  # the first touches of everything
    alone, beside, written = [], [], []
    for number in range(settings.rounds):
        if number % 2 == 0:
            alone.append(_hot_rate(settings, hot, into))
        rate, written_rate = _read_beside(settings, node, hot, number, into)
        beside.append(rate)
        written.append(written_rate)
        if number % 2 == 1:
            alone.append(_hot_rate(settings, hot, into))
        stage.step(f"{beside[-1] / alone[-1]:.2f}")
    hot.drop()
    return BesideDemotion(tuple(alone), tuple(beside), tuple(written))


def _read_beside(
    settings: Settings, node: TieredNode, hot: PageSet, number: int, into: list[bytearray]
) -> tuple[float, float]:
    """Bytes a second from memory, and to disk."""
    dirty_bytes = node.counts()["arena_bytes"] // DIRTY_SHARE + settings.excess_bytes
    count = dirty_bytes // PAGE_BYTES + 1
    dirt = PageSet(node, f"dirt{number}", count)
    node.server.set_nvme_rate(CRAWL)
    dirt.put()
    node.server.set_nvme_rate(settings.rate)
    before, begin_s = node.counts()["demoted_bytes"], time.perf_counter()
    rate = _hot_rate(settings, hot, into)
    written = (node.counts()["demoted_bytes"] - before) / (time.perf_counter() - begin_s)
    node.server.set_nvme_rate(0)
    dirt.drop()
    node.wait_until(lambda counts: counts["dirty_bytes"] <= HOT_PAGES * PAGE_BYTES, "to be clean")
    return rate, written


def _hot_rate(settings: Settings, hot: PageSet, into: list[bytearray]) -> float:
    numbers = range(len(hot.keys))

    def read() -> int:
        if hot.get(numbers, into) != len(numbers):
            raise Unavailable("a page has left memory", hint="give `--rate` less")
        return len(numbers) * PAGE_BYTES

    return read_for(settings.seconds, read)
