"""Playing: a trace to a fleet, in the core, and what came of every request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gd2fs._core import Simulation
from gd2fs.sim.fleet import Fleet
from gd2fs.sim.trace import Trace

REQUESTS_PER_CALL = 20_000  # so that a bar moves, and Ctrl-C is heard
BINS = 96
GAP_SHARES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of it.

    Attributes:
        trace, fleet: What was played to whom.
        counts: Sums over everything, as the core names them.
        links: Of each thing that carries bytes: kind, index, bytes in, bytes out.
        gaps: Times between tokens: mean, max, and quantiles by ``GAP_SHARES``.
        bins: Over time: requests, asked_blocks, found_blocks, first_token_s, answered, busy_s.
        bin_s: Width of one.
        first_token_s, done_s: Of each request, since it came; empty with instant engines.
        found_blocks: Of each request.
        instance_of: Which one answered it.
    """

    trace: Trace
    fleet: Fleet
    counts: dict[str, Any]
    links: list[tuple[str, int, float, float]]
    gaps: dict[str, Any]
    bins: npt.NDArray[np.float64]
    bin_s: float
    first_token_s: npt.NDArray[np.float32]
    done_s: npt.NDArray[np.float32]
    found_blocks: npt.NDArray[np.uint32]
    instance_of: npt.NDArray[np.uint16]


def play(trace: Trace, fleet: Fleet, *, report: Callable[[int], None] | None = None) -> Played:
    """Play all of it.

    Args:
        trace: What is asked.
        fleet: Who answers.
        report: Called now and then with how many requests have been answered.

    Raises:
        InvalidRequest: The trace names instances that the fleet does not have.
    """
    fleet.check_for(trace)
    bin_s = max(trace.span_s, 1.0) / BINS
    simulation = Simulation(fleet.for_core(trace.block_tokens, bin_s), trace.arrays())
    while not simulation.run(REQUESTS_PER_CALL):
        if report is not None:
            report(simulation.answered)
    if report is not None:
        report(simulation.answered)
    return Played(
        trace=trace,
        fleet=fleet,
        counts=simulation.counts(),
        links=simulation.links(),
        gaps=simulation.gaps(list(GAP_SHARES)),
        bins=np.array(simulation.bins(), np.float64).reshape(-1, 6),
        bin_s=bin_s,
        first_token_s=np.frombuffer(simulation.first_token_s(), np.float32),
        done_s=np.frombuffer(simulation.done_s(), np.float32),
        found_blocks=np.frombuffer(simulation.found_blocks(), np.uint32),
        instance_of=np.frombuffer(simulation.instance_of(), np.uint16),
    )
