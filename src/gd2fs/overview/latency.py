"""Latency: quantiles of what took how long between two looks, from counts in buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What is told apart, and the requests on the wire that it is made of.
KINDS = {"read": ("get", "read"), "write": ("offer",)}
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
Buckets = Mapping[str, Any]  # bounds_s, and of each kind the counts by bucket


def buckets_of(tally: Mapping[str, Any]) -> Buckets:
    """Of the native server's tally: over all transports."""
    found: dict[str, Any] = {"bounds_s": list(tally["bounds_s"])}
    for kind, ops in KINDS.items():
        counts = [0] * (len(tally["bounds_s"]) + 1)  # the last one has no bound
        for op, _, each, _ in tally["requests"]:
            if op in ops:
                counts = [sum(pair) for pair in zip(counts, each, strict=True)]
        found[kind] = counts
    return found


def grown(now: Buckets | None, before: Buckets | None) -> Buckets | None:
    """What has come since; None where the two cannot be compared."""
    if not now or not before or now["bounds_s"] != before["bounds_s"]:
        return None
    since: dict[str, Any] = {"bounds_s": now["bounds_s"]}
    for kind in KINDS:
        since[kind] = [a - b for a, b in zip(now[kind], before[kind], strict=True)]
        if min(since[kind]) < 0:
            return None
    return since


def summed(each: Sequence[Buckets]) -> Buckets | None:
    """Of all that have the buckets of the first; None of none."""
    if not each:
        return None
    alike = [one for one in each if one["bounds_s"] == each[0]["bounds_s"]]
    return {"bounds_s": each[0]["bounds_s"]} | {
        kind: [sum(column) for column in zip(*(one[kind] for one in alike), strict=True)]
        for kind in KINDS
    }


def quantiles(since: Buckets | None) -> dict[str, dict[str, float]] | None:
    """Of each kind that there was ``p50_ms``, ``p95_ms``, ``p99_ms``; None where nothing is known.

    Within a bucket they are taken to be spread evenly, as Prometheus does it.
    """
    if since is None:
        return None
    return {
        kind: {
            name: round(1e3 * _quantile(since["bounds_s"], since[kind], share), 4)
            for name, share in QUANTILES.items()
        }
        for kind in KINDS
        if sum(since[kind])
    }


def _quantile(bounds_s: Sequence[float], counts: Sequence[int], share: float) -> float:
    wanted = share * sum(counts)
    low_s = 0.0
    for bound_s, count in zip(bounds_s, counts, strict=False):
        if count and wanted <= count:
            return low_s + (bound_s - low_s) * wanted / count
        wanted -= count
        low_s = bound_s
    return low_s  # longer than the last bound: at least that
