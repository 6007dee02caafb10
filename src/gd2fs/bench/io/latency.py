"""Latency: percentiles of what was measured, and its histogram in buckets of equal ratio."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gd2fs.bench.measures import percentile

BUCKETS_PER_OCTAVE = 8  # bounds are 9 % apart
BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of calls."""

    p50: float
    p99: float
    p999: float
    samples: int

    @classmethod
    def of_ns(cls, times_ns: Sequence[int]) -> Latency:
        p50 = statistics.median(times_ns)
        p99, p999 = (percentile(times_ns, percent) for percent in (99, 99.9))
        return cls(p50 / 1e6, p99 / 1e6, p999 / 1e6, len(times_ns))


def histogram(times_ns: Sequence[int]) -> list[tuple[float, int]]:
    """``(milliseconds at most, calls)`` of every bucket between the fastest and the slowest."""
    counts = Counter(_bucket(time_ns) for time_ns in times_ns)
    first, last = min(counts), max(counts)
    return [(_bound_ns(at) / 1e6, counts[at]) for at in range(first, last + 1)]


def sparkline(buckets: Sequence[tuple[float, int]], width: int = 24) -> str:
    """The histogram as one line of at most ``width`` characters; what is rare still shows."""
    step = -(-len(buckets) // width)
    sums = [
        sum(count for _, count in buckets[at : at + step]) for at in range(0, len(buckets), step)
    ]
    most = max(sums)
    return "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in sums)


def _bucket(time_ns: int) -> int:
    """Buckets of one octave lie evenly, as in an HDR histogram."""
    octave = max(time_ns, 1).bit_length() - 1
    rest = max(time_ns, 1) - (1 << octave)
    return octave * BUCKETS_PER_OCTAVE + (rest * BUCKETS_PER_OCTAVE >> octave)


def _bound_ns(bucket: int) -> float:
    octave, part = divmod(bucket + 1, BUCKETS_PER_OCTAVE)
    return float(1 << octave) * (1 + part / BUCKETS_PER_OCTAVE)
