"""Goal: how many requests a second a fleet takes before the first token is too late.

The trace's times are stretched or pressed; all else stays. Found by halving, so the answer is exact
to a few percent of the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gd2fs.errors import InvalidRequest
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidRequest(
                f"`--goal` is {self.seconds:g}", hint="give seconds, more than 0, as `--goal 2.0`"
            )


@dataclass(frozen=True, slots=True)
class Reached:
    """What the search found.

    Attributes:
        requests_per_s: At which the goal is met; 0: at none that was tried.
        is_at_least: No rate missed the goal: the trace is too short to tell how many more there
            could be.
    """

    requests_per_s: float
    is_at_least: bool


def check_timed(workers: int) -> None:
    """Refuse a goal where ``workers`` send the requests, whatever the trace's times are.

    Raises:
        InvalidRequest: They do.
    """
    if workers:
        raise InvalidRequest(
            "`--goal` changes the times of the trace, and `--workers` ignores them",
            hint="give one of both",
        )


def rate_at(trace: Trace, fleet: Fleet, goal: Goal) -> Reached:
    """Requests a second, of those whose arrivals the trace has.

    Raises:
        InvalidRequest: All requests come at once, or workers send them: there is no rate to change.
    """
    check_timed(fleet.workers)
    if trace.span_s <= 0:
        raise InvalidRequest(
            "all requests of the trace come at once: `--goal` has no rate to change",
            hint="give a trace with times",
        )
    rate = trace.requests / trace.span_s
    low, high = _bracket(trace, fleet, goal)
    if low == 0.0 or math.isinf(high):
        return Reached(low * rate, is_at_least=low > 0)
    while high / low > CLOSE_ENOUGH:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _is_met(trace, fleet, goal, middle) else (low, middle)
    return Reached(low * rate, is_at_least=False)


def _bracket(trace: Trace, fleet: Fleet, goal: Goal) -> tuple[float, float]:
    """Two speeds of the trace: the goal is met at the first one and missed at the second.

    The first is 0 when none meets it, the second infinite when none misses it.
    """
    if _is_met(trace, fleet, goal, 1.0):
        times = 1.0
        while times < TIMES_MOST and _is_met(trace, fleet, goal, 2 * times):
            times *= 2
        return times, 2 * times if times < TIMES_MOST else math.inf
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
