"""Quantiles and namespaces of an overview, from what native servers count."""

from __future__ import annotations

import pytest

from gd2fs.overview.latency import buckets_of, grown, quantiles, summed
from gd2fs.overview.namespaces import TOLD_MAX, lookups_of, namespaces_of

BOUNDS_S = [0.001, 0.01]


def buckets(read=(0, 0, 0), write=(0, 0, 0), bounds_s=BOUNDS_S):
    return {"bounds_s": bounds_s, "read": list(read), "write": list(write)}


def tallied(name: bytes, hits: int = 0, misses: int = 0, read: int = 0):
    return {
        "name": name,
        "memory_hits": hits,
        "disk_hits": 0,
        "misses": {"evicted": misses},
        "read_bytes": read,
        "written_bytes": 0,
    }


# ---- quantiles -----------------------------------------------------------------------------------


def test_ops_and_transports_are_put_together():
    tally = {
        "bounds_s": BOUNDS_S,
        "requests": [
            ("get", "tcp", [1, 2, 3], 0.1),
            ("read", "shm", [10, 0, 0], 0.1),
            ("offer", "tcp", [0, 0, 5], 0.1),
            ("ping", "tcp", [99, 0, 0], 0.1),
        ],
    }

    assert buckets_of(tally) == buckets((11, 2, 3), (0, 0, 5))


@pytest.mark.parametrize(
    ("counts", "p50_ms", "p99_ms"),
    [
        ((10, 0, 0), 0.5, 0.99),  # spread evenly within a bucket
        ((0, 10, 0), 5.5, 9.91),
        ((5, 5, 0), 1.0, 9.82),
        ((0, 0, 10), 10.0, 10.0),  # at least the last bound
    ],
)
def test_quantiles_are_as_prometheus_has_them(counts, p50_ms, p99_ms):
    read = quantiles(buckets(counts))["read"]

    assert (read["p50_ms"], read["p99_ms"]) == (p50_ms, p99_ms)


def test_where_nothing_was_asked_there_is_no_latency():
    assert quantiles(buckets()) == {} and quantiles(None) is None


@pytest.mark.parametrize(
    "before", [None, buckets((2, 0, 0)), buckets((1, 0, 0), bounds_s=[0.002, 0.01])]
)
def test_counts_that_cannot_be_compared_are_not(before):
    assert grown(buckets((1, 0, 0)), before) is None


def test_nodes_with_other_buckets_are_left_out_of_the_sum():
    other = buckets((7, 0, 0), bounds_s=[0.5, 1])

    assert summed([buckets((1, 0, 0)), other, buckets((2, 0, 0))]) == buckets((3, 0, 0))
    assert summed([]) is None


# ---- namespaces ----------------------------------------------------------------------------------


def test_the_busiest_namespaces_are_told_and_the_rest_is_one():
    many = [tallied(b"%03d" % index, hits=index, misses=1) for index in range(TOLD_MAX + 50)]

    told = lookups_of({"namespaces": [tallied(b"", 5), *many]})

    assert len(told) == TOLD_MAX + 1
    assert told[0] == [f"{TOLD_MAX + 49}", TOLD_MAX + 49, 1, 0, 0]
    assert told[-1][:3] == ["", 5 + sum(range(50)), 50]


def test_sizes_and_lookups_are_summed_over_the_nodes():
    report = {
        "namespaces": [["", 9, 0, 0, 0, 0], ["kv", 50, 10, 7, 80, 0]],
        "lookups": [["kv", 3, 1, 100, 200], ["chat", 1, 1, 5, 5], ["", 1, 0, 0, 0]],
    }

    kv, rest, chat = namespaces_of([report, report])

    assert (kv["name"], kv["nodes"], kv["memory_bytes"], kv["quota_bytes"]) == ("kv", 2, 100, 160)
    assert (kv["hits"], kv["misses"], kv["read_bytes"]) == (6, 2, 200)
    assert (chat["name"], chat["memory_bytes"], chat["hits"]) == ("chat", None, 2)
    # All without rules: those that are told apart, and those that are not.
    assert (rest["name"], rest["memory_bytes"], rest["hits"], rest["misses"]) == ("", 18, 4, 2)


@pytest.mark.parametrize(("before", "hit_rate"), [((1, 0), 0.75), ((5, 0), None), ((4, 1), None)])
def test_a_hit_rate_is_of_the_lookups_since_the_look_before(before, hit_rate):
    def seen(hits: int, misses: int, earlier=()):
        report = {"namespaces": [], "lookups": [["kv", hits, misses, 0, 0]]}
        return namespaces_of([report], earlier)

    [space] = seen(4, 1, seen(*before))

    assert space["hit_rate"] == hit_rate
