"""Curve: how much of a trace caches of every size find, in one pass over it.

Where a trace has more blocks than shall be followed, several samples are taken, each of other
blocks; how far they lie apart says how far off their mean may be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gd2fs._core import miss_curve
from gd2fs.sim.trace import Trace

PASSES = 8  # with other samples each
ERRORS = 2.0  # standard errors: 19 times of 20 the truth is nearer


@dataclass(frozen=True, slots=True)
class Point:
    """One size of cache.

    Attributes:
        blocks: Of the cache.
        hit_rate: Share of the prompts' blocks that it finds.
        error: How far off that may be, to either side; 0: nothing was sampled.
    """

    blocks: int
    hit_rate: float
    error: float


@dataclass(frozen=True, slots=True)
class Curve:
    """All of it. ``sampled_share``: of the blocks that were followed, in each pass."""

    points: list[Point]
    sampled_share: float


def curve_of(trace: Trace, *, samples: int, count: int = 25) -> Curve:
    """Of one LRU cache that all instances share.

    Args:
        trace: What is asked.
        samples: Blocks that are followed at most.
        count: Sizes, from one to all blocks of the trace, each larger by the same factor.
    """
    sizes = np.unique(np.geomspace(1, max(trace.block_count, 2), count).round().astype(int))
    told = sizes.astype(float).tolist()
    is_whole = trace.block_count <= samples
    arrays = trace.arrays()
    passes = [miss_curve(arrays, told, samples, seed) for seed in range(1 if is_whole else PASSES)]
    shares = np.array([each for each, _ in passes])
    spread = np.zeros(len(told)) if is_whole else shares.std(axis=0, ddof=1) / PASSES**0.5
    return Curve(
        [
            Point(int(size), float(share), float(ERRORS * each))
            for size, share, each in zip(sizes, shares.mean(axis=0), spread, strict=True)
        ],
        float(np.mean([share for _, share in passes])),
    )
