"""Figures: what a run came to, in the words and units that reports and JSON have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gd2fs.errors import InvalidRequest
from gd2fs.sim.playing import GAP_SHARES, Played

PERCENTS = (50, 95, 99)


def figures_of(played: Played) -> dict[str, Any]:
    """All of them, as JSON can hold them."""
    counts, fleet = played.counts, played.fleet
    asked = max(counts["asked_blocks"], 1)
    tiers = ("device", "host", "memory", "disk")
    found = sum(counts[f"{tier}_blocks"] for tier in tiers)
    result: dict[str, Any] = {
        "topology": fleet.topology,
        "instances": fleet.instances,
        "balancer": fleet.balancer,
        "requests": played.trace.requests,
        "block_hit_rate": found / asked,
        "hit_rate_by_tier": {tier: counts[f"{tier}_blocks"] / asked for tier in tiers},
        "blocks": {"asked": counts["asked_blocks"], "found": found},
        "declined_share": counts["declined_blocks"] / asked,
        "token_hit_rate": counts["found_tokens"] / max(counts["input_tokens"], 1),
        "prefill_tokens": counts["input_tokens"] - counts["found_tokens"],
        "prefill_tokens_saved": counts["found_tokens"],
        "evictions": _evictions(played),
        "bytes_moved": _bytes_moved(played),
    }
    if not fleet.engine.is_instant:
        result |= _times(played)
    return result


def check_finite(figures: Mapping[str, Any], where: str = "") -> None:
    """Refuse what JSON has no number for. Raises InvalidRequest."""
    for name, value in figures.items():
        if isinstance(value, Mapping):
            check_finite(value, f"{where}{name}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(
                f"`{where}{name}` comes to {value}: no number",
                hint="give rates, times and prices that are nearer to what there is",
            )


def summary_of(seconds: npt.NDArray[Any]) -> dict[str, float]:
    """Mean, percentiles and the most of some times."""
    if not len(seconds):
        return {"mean": 0.0, **{f"p{each}": 0.0 for each in PERCENTS}, "max": 0.0}
    marks = np.percentile(seconds, PERCENTS, method="inverted_cdf")
    return {
        "mean": float(seconds.mean(dtype=np.float64)),
        **{f"p{each}": float(mark) for each, mark in zip(PERCENTS, marks, strict=True)},
        "max": float(seconds.max()),
    }


def _times(played: Played) -> dict[str, Any]:
    counts, gaps = played.counts, played.gaps
    span_s = max(counts["ended_s"], 1e-9)
    busy = np.array(counts["busy_s"])
    later = _later_turns(played)
    return {
        "ttft_s": summary_of(played.first_token_s),
        "ttft_later_turns_s": summary_of(played.first_token_s[later]),
        "tpot_s": {
            "mean": gaps["mean"],
            **{
                f"p{round(100 * share)}": value
                for share, value in zip(GAP_SHARES, gaps["quantiles"], strict=True)
            },
            "max": gaps["max"],
        },
        "answer_s": summary_of(played.done_s),
        "requests_per_s": played.trace.requests / span_s,
        "output_tokens_per_s": counts["output_tokens"] / span_s,
        "span_s": span_s,
        "prefill_gpu_s": counts["computed_s"],
        "prefill_gpu_s_saved": counts["saved_s"],
        "busy_s": float(busy.sum()),
        "utilization": {"mean": float(busy.mean() / span_s), "max": float(busy.max() / span_s)},
    }


def _later_turns(played: Played) -> npt.NDArray[np.bool_]:
    """Requests that are not the first of their conversation."""
    later = np.ones(played.trace.requests, bool)
    later[np.unique(played.trace.session, return_index=True)[1]] = False
    return later


def _of_kind(played: Played, kind: str) -> list[tuple[float, float]]:
    return [(first, second) for what, _, first, second in played.links if what == kind]


def _evictions(played: Played) -> dict[str, int]:
    store = _of_kind(played, "evicted")
    return {
        "device": played.counts["device_evicted"],
        "host": played.counts["host_evicted"],
        "memory": round(sum(first for first, _ in store)),
        "disk": round(sum(second for _, second in store)),
    }


def _bytes_moved(played: Played) -> dict[str, Any]:
    return {
        "engine_nics": _moved(_of_kind(played, "engine"), ("in", "out")),
        "host_to_device": _moved(_of_kind(played, "host"), ("in",)),
        "node_nics": _moved(_of_kind(played, "node"), ("in", "out")),
        "disks": _moved(_of_kind(played, "disk"), ("written", "read")),
    }


def _moved(pairs: Sequence[tuple[float, float]], names: Sequence[str]) -> dict[str, float]:
    result: dict[str, float] = {}
    for at, name in enumerate(names):
        values = [pair[at] for pair in pairs] or [0.0]
        result |= {name: sum(values), f"{name}_busiest": max(values)}
    return result
