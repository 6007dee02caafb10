"""Tide: instances that follow the load, and what those that are not needed could do meanwhile.

An instance that leaves takes its private caches along; what is in GD2FS stays. Work that can wait
(evaluation, embedding, batches of prompts) takes the instances that the tide leaves free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import Rates
from gd2fs.sim.trace import Trace, plain

INTERVAL_S = 300.0  # at which instances come and go
HOUR_S = 3600.0
RATE_LEAST, RATE_MOST = 1e-6, 1e9  # of one instance, requests a second

Tide = list[tuple[float, int]]  # from when on there are how many


def tide_of(trace: Trace, per_instance: float, most: int) -> Tide:
    """As many instances in each interval as take what comes in it.

    Args:
        trace: What comes.
        per_instance: Requests a second that one takes.
        most: Instances that there are.
    """
    if not RATE_LEAST <= per_instance <= RATE_MOST:
        raise InvalidRequest(
            f"`--elastic` is {per_instance:g}",
            hint="give requests a second of one instance, "
            f"{plain(RATE_LEAST)} to {plain(RATE_MOST)}",
        )
    count = int(trace.span_s / INTERVAL_S) + 1
    asked = np.bincount((trace.arrives_s / INTERVAL_S).astype(int), minlength=count)
    wanted = np.ceil(asked / INTERVAL_S / per_instance).astype(int)
    return [(at * INTERVAL_S, int(each)) for at, each in enumerate(np.clip(wanted, 1, most))]


def elasticity_of(
    tide: Sequence[tuple[float, int]], instances: int, span_s: float, rates: Rates
) -> dict[str, float]:
    """Hours of instances that the load takes, and what the others could compute."""
    ends = [*(start for start, _ in tide[1:]), max(span_s, tide[-1][0])]
    lengths = [end - start for (start, _), end in zip(tide, ends, strict=True)]
    used = sum(count * length for (_, count), length in zip(tide, lengths, strict=True)) / HOUR_S
    all_hours = instances * sum(lengths) / HOUR_S
    spare = all_hours - used
    return {
        "instance_hours": used,
        "spare_hours": spare,
        "mean_instances": used / all_hours * instances if all_hours else float(instances),
        "offline_tokens": spare * HOUR_S / rates.token_s if rates.token_s else 0.0,
    }
