"""What vLLM's scheduler is told of keys: asked for once, late is a miss, failed is a miss."""

from __future__ import annotations

import pytest

from gd2fs.engines.vllm.lookups import GRANTS_MAX, MISS_S, Answer, Lookups

TIMEOUT_S = 0.2


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lookups(clock: Clock) -> Lookups:
    return Lookups(timeout_s=TIMEOUT_S, clock=clock)


def test_all_keys_of_a_step_are_asked_for_in_one_batch(lookups: Lookups) -> None:
    for key in (b"a", b"b", b"c", b"a"):
        assert lookups.look(key, "r1") is Answer.LATER

    assert lookups.take_batch() == [b"a", b"b", b"c"]


def test_a_key_is_asked_for_once_however_many_want_it(lookups: Lookups) -> None:
    lookups.look(b"a", "r1")
    lookups.take_batch()
    lookups.look(b"a", "r2")

    assert lookups.take_batch() == []


def test_an_answer_reaches_all_who_wait(lookups: Lookups) -> None:
    lookups.look(b"a", "r1")
    lookups.look(b"a", "r2")
    lookups.resolve([b"a"], [Answer.HIT])

    assert {lookups.look(b"a", request) for request in ("r1", "r2")} == {Answer.HIT}


def test_what_is_not_answered_in_time_is_a_miss_until_it_is(lookups: Lookups, clock: Clock) -> None:
    lookups.look(b"a", "r1")
    clock.now += TIMEOUT_S
    late = lookups.look(b"a", "r1")
    lookups.resolve([b"a"], [Answer.HIT])

    assert (late, lookups.look(b"a", "r1")) == (Answer.LATE, Answer.HIT)


def test_a_failed_load_is_a_miss_that_no_later_answer_undoes(lookups: Lookups) -> None:
    lookups.look(b"a", "r1")
    lookups.resolve([b"a"], [Answer.HIT])
    lookups.fail([b"a"])
    lookups.resolve([b"a"], [Answer.HIT])

    assert lookups.look(b"a", "r1") is Answer.FAILED


def test_a_newcomer_asks_again_for_what_was_missed_long_ago(lookups: Lookups, clock: Clock) -> None:
    lookups.look(b"a", "r1")
    lookups.take_batch()
    lookups.resolve([b"a"], [Answer.ABSENT])
    soon = lookups.look(b"a", "r2")
    clock.now += MISS_S
    later = lookups.look(b"a", "r3")

    assert (soon, later, lookups.take_batch()) == (Answer.ABSENT, Answer.LATER, [b"a"])


def test_who_held_a_failed_key_is_not_a_newcomer(lookups: Lookups, clock: Clock) -> None:
    lookups.look(b"a", "r1")
    lookups.fail([b"a"])
    clock.now += 10 * MISS_S

    assert lookups.look(b"a", "r1") is Answer.FAILED


def test_what_we_stored_is_there(lookups: Lookups) -> None:
    lookups.look(b"a", "r1")
    lookups.resolve([b"a"], [Answer.ABSENT])
    lookups.stored([b"a", b"of nobody"])

    assert lookups.look(b"a", "r1") is Answer.HIT


def test_the_hits_of_a_request_are_its_own(lookups: Lookups) -> None:
    for key, request in ((b"a", "r1"), (b"b", "r1"), (b"c", "r2")):
        lookups.look(key, request)
    lookups.resolve([b"a", b"b", b"c"], [Answer.HIT, Answer.ABSENT, Answer.HIT])

    assert lookups.hits_of("r1") == [b"a"]


def test_nothing_is_left_of_a_request_that_is_over(lookups: Lookups) -> None:
    lookups.look(b"a", "r1")
    lookups.look(b"a", "r2")
    lookups.forget("r1")
    lookups.forget("r2")
    lookups.resolve([b"a"], [Answer.HIT])

    assert (len(lookups), lookups.take_batch(), lookups.hits_of("r1")) == (0, [], [])


def test_a_request_is_told_of_a_key_once(lookups: Lookups) -> None:
    assert [lookups.is_news(b"a", request) for request in ("r1", "r1", "r2")] == [True, False, True]


def test_a_request_is_granted_no_more_keys_than_fit(lookups: Lookups) -> None:
    granted = [lookups.grant(key, "r1", 2) for key in (b"a", b"b", b"c", b"a")]

    assert granted == [True, True, False, True] and lookups.grant(b"c", "r2", 2)


def test_a_key_that_is_evicted_again_and_again_is_given_up(lookups: Lookups) -> None:
    granted = [lookups.grant(b"a", "r1", 2) for _ in range(GRANTS_MAX + 1)]

    assert granted == [True] * GRANTS_MAX + [False]
