"""The figures of the measurements of a cluster that changes, from gets and replays made by hand."""

from __future__ import annotations

import json
import time

import pytest

from gd2fs.bench.cluster.cleanup import CleanupOutcome, CleanupRound
from gd2fs.bench.cluster.growth import GrowthOutcome
from gd2fs.bench.cluster.kill import outcome_of, recovery_s
from gd2fs.bench.cluster.replay import Replay, Replayed, read_trace
from gd2fs.bench.cluster.steady_load import FAILED, HIT, MISS, Get, S, SteadyLoad, fill
from gd2fs.bench.io.latency import Latency
from gd2fs.errors import InvalidRequest
from gd2fs.testing import MemoryStore

OWNERS = [[0], [2]]  # of key 0 and key 1, with one copy; node 2 is killed


def get(key: int, end_s: float, outcome: str = HIT) -> Get:
    return Get(key, int(end_s * S) - 1000, 1000, outcome)


def steady(begin_s: float, end_s: float, per_s: int) -> list[int]:
    """Ends of calls, evenly."""
    count = round((end_s - begin_s) * per_s)
    return [int((begin_s + (at + 0.5) / per_s) * S) for at in range(count)]


def test_a_rate_that_never_fell_has_recovered_at_once():
    assert recovery_s(steady(0, 8, 100), 0, per_s=100) == 0.0


def test_a_rate_has_recovered_when_it_stays_over_60_percent():
    ends = steady(0, 1, 100) + steady(1, 2, 10) + steady(2, 8, 90)

    assert 1.5 < recovery_s(ends, 0, per_s=100) < 2.5


def test_with_one_copy_only_the_killed_nodes_keys_may_be_missed():
    gets = [get(0, 3), get(1, 3), get(0, 5), get(1, 5, MISS)]

    outcome = outcome_of(1, gets, 4 * S, OWNERS)

    assert (outcome.missed, outcome.lost_keys, outcome.missed_others) == (1, 1, 0)


def test_a_miss_of_a_key_that_another_node_has_is_told():
    outcome = outcome_of(1, [get(0, 3), get(0, 5, MISS)], 4 * S, OWNERS)

    assert outcome.missed_others == 1
    assert not outcome.is_good


def test_a_get_that_fails_is_told():
    outcome = outcome_of(1, [get(0, 3), get(0, 5, FAILED)], 4 * S, OWNERS)

    assert outcome.failed == 1
    assert not outcome.is_good


def cleanup_round(before_ms: float, during_ms: float) -> CleanupRound:
    latencies = [Latency(0.1, p99, p99, 1000) for p99 in (before_ms, during_ms)]
    return CleanupRound(*latencies, ([], []), failed=0)


def test_less_than_a_millisecond_counts_as_one():
    assert cleanup_round(0.2, 0.9).ratio == 1.0


def test_the_median_of_the_rounds_counts():
    rounds = [cleanup_round(1, during) for during in (1, 9, 1.5, 1.2, 8)]

    assert CleanupOutcome(1000, 2, rounds).ratio == 1.5


def test_growth_tells_the_whole_and_the_worst_window():
    calm = Replayed(asked=[100, 100], hits=[50, 50])
    changed = Replayed(asked=[100, 100], hits=[50, 44])

    outcome = GrowthOutcome((4, 8), calm, changed, [])

    assert outcome.total_points == pytest.approx(3.0)
    assert outcome.window_points == pytest.approx(6.0)
    assert not outcome.is_good


def test_hits_that_were_gained_are_no_loss():
    outcome = GrowthOutcome((4, 8), Replayed([10], [5]), Replayed([10], [6]), [])

    assert outcome.is_good


def test_a_trace_is_read_as_far_as_it_is_wanted(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps({"hash_ids": [at, at + 1]}) + "\n" for at in range(5)))

    assert read_trace(file, 2) == [[0, 1], [1, 2]]


def test_what_is_no_trace_is_refused(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text("no trace\n")

    with pytest.raises(InvalidRequest, match="is no trace"):
        read_trace(file, 2)


def test_a_replay_counts_leading_pages():
    replay = Replay(MemoryStore(), [[1, 2], [1, 2, 3], [4, 2]], per_s=1e6, value_bytes=16)

    replay.start()
    replay.join()

    assert replay.replayed == Replayed(asked=[7], hits=[2])


def test_a_steady_load_notes_every_get():
    store, keys = MemoryStore(), ["a", "b"]
    assert fill(store, "load", keys, 16) == 2

    with SteadyLoad(store, "load", keys, 16, per_s=1000, threads=2) as load:
        end = time.monotonic() + 20
        while len(load.gets()) < 10:
            assert time.monotonic() < end

    assert {each.outcome for each in load.gets()} == {HIT}
