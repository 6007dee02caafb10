"""Processor: who used how much of it, and whether somebody else was busy meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOREIGN_MAX = 0.05  # of all cores, by other processes or stolen by the host: above, it is busy
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")

# Columns of the first line of /proc/stat, after its name. Guests are counted in user already.
USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL = range(8)


def process_cpu_s(pid: int) -> float:
    """Seconds that the threads of ``pid`` have run, precise where the kernel tells it."""
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except (OSError, IndexError):
        return _process_ticks(pid) / TICKS_PER_S


@dataclass(frozen=True, slots=True)
class Moment:
    """What all cores together, and our own processes, had done at one moment. In seconds."""

    busy_s: float
    steal_s: float
    total_s: float
    own_s: float

    @classmethod
    def now(cls, own: Iterable[int]) -> Moment:
        """``own``: process identifiers of the run, this process among them."""
        first = (PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0]
        return cls.parse(first, own_s=sum(_process_ticks(pid) for pid in own) / TICKS_PER_S)

    @classmethod
    def parse(cls, line: str, *, own_s: float) -> Moment:
        """``line``: the first of /proc/stat."""
        ticks = [int(word) for word in line.split()[1:9]]
        busy = sum(ticks[at] for at in (USER, NICE, SYSTEM, IRQ, SOFTIRQ))
        return cls(busy / TICKS_PER_S, ticks[STEAL] / TICKS_PER_S, sum(ticks) / TICKS_PER_S, own_s)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What others took between two moments, as shares of all cores."""

    processes: float
    steal: float

    @classmethod
    def between(cls, start: Moment, end: Moment) -> Foreign:
        total = max(end.total_s - start.total_s, 1e-9)
        others = (end.busy_s - start.busy_s) - (end.own_s - start.own_s)
        return cls(max(0.0, others / total), (end.steal_s - start.steal_s) / total)

    @property
    def is_busy(self) -> bool:
        return max(self.processes, self.steal) > FOREIGN_MAX

    def text(self) -> str:
        return f"{self.processes:.0%} by other processes, {self.steal:.0%} stolen"


def _process_ticks(pid: int) -> int:
    """Of all threads, those that have ended too, and of children that were waited for."""
    try:
        fields = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(fields[at]) for at in (11, 12))  # utime and stime
