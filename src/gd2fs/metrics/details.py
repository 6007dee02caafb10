"""Details: what the native server counts by namespace, op, transport, policy, reason and peer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import Metric

from gd2fs.metrics.families import FAMILIES

OTHER = "/other"  # the namespaces that are not told apart; no namespace is called so

Samples = Mapping[Any, float]  # by the values of the labels, a tuple
Tally = Mapping[str, Any]


def labelled(name: str, samples: Samples) -> Metric:
    """A family of the table with these samples, by the values of its labels."""
    family = FAMILIES[name].made()
    for labels, value in samples.items():
        family.add_metric(labels, value)
    return family


def families(tally: Tally) -> Iterable[Metric]:
    """Yield every metric that comes from ``Server.tally``."""
    yield _requests(tally)
    yield from _namespaces(tally)
    ways = {}
    for transport, bytes_in, bytes_out in tally["transports"]:
        ways[transport, "in"], ways[transport, "out"] = bytes_in, bytes_out
    yield labelled("gd2fs_transport_bytes", ways)
    yield from _gone(tally)
    yield from _peers(tally)


def _requests(tally: Tally) -> Metric:
    family = FAMILIES["gd2fs_request_seconds"].made()
    bounds = [f"{each:g}" for each in tally["bounds_s"]] + ["+Inf"]
    for op, transport, counts, took_s in tally["requests"]:
        buckets = list(zip(bounds, accumulate(counts), strict=True))
        family.add_metric([op, transport], buckets, took_s)
    return family


def _namespaces(tally: Tally) -> Iterable[Metric]:
    lookups: dict[tuple[str, ...], float] = defaultdict(float)
    probes: dict[tuple[str, ...], float] = defaultdict(float)
    read: dict[tuple[str, ...], float] = defaultdict(float)
    written: dict[tuple[str, ...], float] = defaultdict(float)
    for each in tally["namespaces"]:
        # Summed: names that are no text may read alike.
        name = each["name"].decode("utf-8", "replace") or OTHER
        lookups[name, "memory", "hit", ""] += each["memory_hits"]
        if each["disk_hits"]:
            lookups[name, "disk", "hit", ""] += each["disk_hits"]
        for reason, count in each["misses"].items():
            lookups[name, "none", "miss", reason] += count
        probes[name, "found"] += each["found"]
        probes[name, "missing"] += each["lacking"]
        read[name,] += each["read_bytes"]
        written[name,] += each["written_bytes"]
    yield labelled("gd2fs_namespace_lookups", lookups)
    yield labelled("gd2fs_namespace_probes", probes)
    yield labelled("gd2fs_namespace_read_bytes", read)
    yield labelled("gd2fs_namespace_written_bytes", written)


def _gone(tally: Tally) -> Iterable[Metric]:
    evicted = tally["evicted"]
    pieces = {(policy, why): count for policy, why, count, _ in evicted}
    yield labelled("gd2fs_evicted_pieces", pieces)
    yield labelled("gd2fs_evicted_bytes", {(policy, why): size for policy, why, _, size in evicted})
    departed = tally["departed"]
    yield labelled("gd2fs_departed_pieces", {(why,): count for why, count, _ in departed})
    yield labelled("gd2fs_departed_bytes", {(why,): size for why, _, size in departed})


def _peers(tally: Tally) -> Iterable[Metric]:
    peers = tally["peers"]
    for name, key in (
        ("gd2fs_peer_up", "is_up"),
        ("gd2fs_peer_requests", "requests"),
        ("gd2fs_peer_failures", "failures"),
        ("gd2fs_peer_sent_bytes", "sent_bytes"),
    ):
        yield labelled(name, {(each["name"],): float(each[key]) for each in peers})
    took = FAMILIES["gd2fs_peer_request_seconds"].made()
    for each in peers:
        took.add_metric([each["name"]], each["answered"], each["took_s"])
    yield took
