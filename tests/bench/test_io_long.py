"""`bench gil` and `bench soak` with real processes, short: what they find, and what they refuse."""

import json
from collections import Counter

import pytest

from gd2fs.bench.io.gil import Counted, GilOutcome
from gd2fs.bench.io.mix import Mix
from gd2fs.bench.io.processor import Foreign
from gd2fs.bench.io.soak import DESCRIPTORS_SPARE, SoakOutcome, Watched
from gd2fs.cli import main

QUIET = Foreign(0.0, 0.0)
MIB = 1 << 20


@pytest.mark.slow
def test_a_soak_finds_nothing_wrong_and_says_what_it_did(tmp_path):
    file = tmp_path / "soak.json"
    words = "bench soak --minutes 0.04 --clients 2 --nodes 2 --arena plain --json"

    main([*words.split(), str(file)])  # so short a time says nothing about growth

    facts = json.loads(file.read_text())
    assert facts["errors"] == []
    assert set(facts["calls"]) >= {"put", "read", "put_pages", "get_pages", "exists"}
    assert [each["process"] for each in facts["processes"]] == [
        "node-0",
        "node-1",
        "client-0",
        "client-1",
    ]


@pytest.mark.slow
def test_holding_the_lock_is_measured_of_every_kind_of_batch(tmp_path):
    file = tmp_path / "gil.json"
    words = "bench gil --rounds 1 --seconds 0.05 --arena plain --json"

    assert main([*words.split(), str(file)]) == 0

    facts = json.loads(file.read_text())
    assert facts["share"] > 0
    assert facts["inside_load_gbps"] > 0
    assert {each["op"] for each in facts["held"]} == {"get", "put", "exists"}
    assert all(0 < each["us_p50"] <= each["us_p99"] for each in facts["held"])


def test_the_share_is_that_of_the_middle_round():
    rounds = [Counted(inside, 100, 1, 1) for inside in (10, 95, 99)]

    assert GilOutcome(rounds, [], QUIET).share == 0.95


def watched(rss_mib, descriptors=(10, 10, 10, 10)):
    rss = [round(size * MIB) for size in rss_mib]
    return Watched("node-0", 1, rss, list(descriptors))


def outcome_of(each, errors=()):
    return SoakOutcome(60.0, Counter(), Counter(), 0, list(errors), [each])


def test_a_steady_process_is_good():
    assert outcome_of(watched([50, 60, 60, 60])).is_good


def test_memory_that_grows_to_the_end_is_seen():
    assert not outcome_of(watched([50, 60, 80, 90])).is_good


def test_descriptors_that_stay_open_are_seen():
    leaking = (10, 10, 20, 10 + DESCRIPTORS_SPARE + 1)

    assert not outcome_of(watched([50, 50, 50, 50], leaking)).is_good


def test_an_error_of_a_call_is_no_good_soak():
    assert not outcome_of(watched([50, 50, 50, 50]), ["client-0: wrong bytes"]).is_good


def test_random_calls_keep_their_own_copy_right(one_node_client):
    mix = Mix(one_node_client, index=9)
    tally = mix.run(0.5)
    mix.finish()

    assert tally.calls.total() > 0
    assert one_node_client.list("/soak/9-").entries == []
