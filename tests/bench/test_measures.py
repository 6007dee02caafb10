"""Measures: the figures follow from the turns by arithmetic."""

import math
from dataclasses import replace

import pytest
from bench.outcomes import played
from hypothesis import given
from hypothesis import strategies as st

from gd2fs.bench.measures import (
    agreement,
    arm_of,
    beginnings_of,
    percentile,
    ratios_of,
    requests_of,
)


def arm(*turns):
    return arm_of(turns, cache_bytes=1000, engine_counts={})


def test_a_first_turn_counts_neither_for_the_first_token_nor_for_the_hit_rate():
    measured = arm(
        played(0, 0, ttft_s=9.0, reused=0),
        played(0, 1, ttft_s=1.0, reused=100),
        played(0, 1, ttft_s=2.0, reused=50),
    )

    assert (measured.ttft_s.mean, measured.ttft_s.p95, measured.hit_rate) == (1.5, 2.0, 0.75)


def test_tokens_found_beyond_the_history_are_no_hits():
    measured = arm(played(0, 1, ttft_s=1, reused=130), played(0, 1, ttft_s=1, reused=70))

    assert measured.hit_rate == 170 / 200


def test_requests_per_second_are_over_the_time_from_first_to_last():
    measured = arm(
        played(0, 0, ttft_s=1.0, reused=0, sent_s=10.0),
        played(0, 1, ttft_s=1.3, reused=0, sent_s=12.0),
    )

    assert measured.requests_per_s == pytest.approx(2 / 4.0)


def test_the_time_of_a_token_is_the_gap_before_it_over_all_turns():
    measured = arm(played(0, 0, ttft_s=5.0, reused=0), played(0, 1, ttft_s=5.0, reused=0))

    assert measured.tpot_s.mean == pytest.approx(0.1)
    assert measured.tpot_s.max == pytest.approx(0.1)


def test_the_wait_for_the_last_event_is_measured():
    measured = arm(played(0, 0, ttft_s=5.0, reused=0), played(0, 1, ttft_s=5.0, reused=0))

    assert measured.last_event_s.mean == pytest.approx(0.5)


def test_prefill_is_what_the_engines_computed():
    measured = arm(played(0, 0, ttft_s=1, reused=0), played(0, 1, ttft_s=1, reused=100))

    assert measured.prefill_tokens == 50 + 50


def test_ratios_have_the_shape_of_the_arms():
    ratios = ratios_of(
        arm(played(0, 1, ttft_s=2.0, reused=50)), arm(played(0, 1, ttft_s=1.0, reused=100))
    )

    assert ratios["ttft_s"] == {"mean": 0.5, "p95": 0.5}
    assert ratios["hit_rate"] == 2.0


def test_a_ratio_to_nothing_is_none():
    cold, warm = (arm(played(0, 1, ttft_s=1, reused=reused)) for reused in (0, 100))

    assert ratios_of(cold, warm)["hit_rate"] is None


def test_agreement_is_the_share_of_equal_answers():
    left = [played(0, t, ttft_s=1, reused=0) for t in range(4)]
    right = [*left[:3], played(0, 3, ttft_s=1, reused=0, answer=(1, 2, 4))]

    assert agreement(left, right) == 0.75


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, percent):
    found = percentile(values, percent)
    wanted = math.ceil(len(values) * percent / 100)

    assert sum(value <= found for value in values) >= wanted
    assert sum(value < found for value in values) < wanted


def test_a_session_is_told_of_as_the_earlier_one_that_begins_most_like_it():
    turns = [played(session, 0, ttft_s=1, reused=0) for session in range(4)]
    prompts = [(1, 2, 3, 4), (1, 2, 9), (5, 6), (1, 2, 9, 7)]
    turns = [
        replace(each, turn=replace(each.turn, prompt=prompt))
        for each, prompt in zip(turns, prompts, strict=True)
    ]

    assert beginnings_of(turns) == [
        {"session": 1, "as_session": 0, "tokens": 2},
        {"session": 3, "as_session": 1, "tokens": 3},
    ]


def test_a_request_tells_how_much_of_its_answer_is_the_scripts():
    told = requests_of(
        [
            played(0, 0, ttft_s=1.0, reused=0, answer=(1, 2, 3)),
            played(0, 1, ttft_s=1.0, reused=0, answer=(1, 5, 3)),
        ]
    )

    assert [each["agreeing_tokens"] for each in told] == [3, 1]
    assert [each["last_step_s"] for each in told] == pytest.approx([1.1, 1.1])
