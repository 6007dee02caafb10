"""Goal: how many requests a second a fleet takes before the first token is too late.

The trace's times are stretched or pressed; all else stays. Found by halving, so the answer is exact
to a few percent of the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gd2fs.sim.fleet import Fleet
from gd2fs.sim.playing import play
from gd2fs.sim.trace import Trace

TIMES_LEAST, TIMES_MOST = 1 / 1024, 1024.0
CLOSE_ENOUGH = 1.03  # of the rate


@dataclass(frozen=True, slots=True)
class Goal:
    """Time to first token: ``percent`` of requests shall have it within ``seconds``."""

    seconds: float
    percent: float = 95.0


def rate_at(trace: Trace, fleet: Fleet, goal: Goal) -> float:
    """Requests a second, of those whose arrivals the trace has; 0 when none at all are in time."""
    rate = trace.requests / max(trace.span_s, 1e-9)
    low, high = _bracket(trace, fleet, goal)
    if low == 0.0:
        return 0.0
    while high / low > CLOSE_ENOUGH:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _is_met(trace, fleet, goal, middle) else (low, middle)
    return low * rate


def _bracket(trace: Trace, fleet: Fleet, goal: Goal) -> tuple[float, float]:
    """Two speeds of the trace: the goal is met at the first one and missed at the second."""
    if _is_met(trace, fleet, goal, 1.0):
        times = 1.0
        while times < TIMES_MOST and _is_met(trace, fleet, goal, 2 * times):
            times *= 2
        return times, 2 * times
    times = 0.5
    while times >= TIMES_LEAST:
        if _is_met(trace, fleet, goal, times):
            return times, 2 * times
        times /= 2
    return 0.0, 0.0


def _is_met(trace: Trace, fleet: Fleet, goal: Goal, times: float) -> bool:
    played = play(trace.faster(times), fleet)
    mark = np.percentile(played.first_token_s, goal.percent, method="inverted_cdf")
    return bool(mark <= goal.seconds)
