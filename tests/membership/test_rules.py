"""What a node decides about its own place, tried without any clock and any etcd."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from membership.histories import histories
from membership.test_state import replayed

from gd2fs.membership import rules
from gd2fs.membership.rules import RAMP_PERCENT, Beat, Join, Listing, Verdict
from gd2fs.membership.state import ClusterState, LeftBy, Member, NodeKey, NodeState, caught_up

TERM = (1, 1)
A, B = (NodeKey(Member(name, ("h:1",), boot=1), lease=5) for name in "ab")
SECONDS = st.integers(1, 3600)


# ---- keep-alives ---------------------------------------------------------------------------------


@given(histories(), st.data())
def test_a_keep_alive_counts_only_when_every_event_up_to_it_is_applied(history, data):
    states = replayed(history)
    state = data.draw(st.sampled_from(states))
    at = data.draw(st.integers(state.revision, history.revision))
    listing = Listing(at, {key: put.revision for key, put in history.keys_at(at).items()}, TERM)

    verdict = rules.verdict_of(Beat(5, TERM), listing, state)

    missing = history.events[state.revision + 1 - history.first_revision :][: at - state.revision]
    assert (verdict == Verdict.COUNTS) == (not any(missing))
    if verdict == Verdict.COUNTS:
        assert caught_up(state, at).revisions == listing.revisions


@given(histories())
def test_who_has_applied_more_than_the_listing_shows_is_not_behind(history):
    state = replayed(history)[-1]
    listing = Listing(history.first_revision, {}, TERM)
    assume(state.revision >= listing.revision)

    assert rules.verdict_of(Beat(5, TERM), listing, state) == Verdict.COUNTS


def test_a_keep_alive_that_another_leader_answered_does_not_count():
    listing = Listing(3, {}, (1, 2))

    assert rules.verdict_of(Beat(5, TERM), listing, ClusterState(3)) == Verdict.IS_SPLIT


def test_an_etcd_that_is_behind_what_it_said_before_has_lost_its_history():
    listing = Listing(3, {}, TERM, asked_revision=4)

    assert rules.verdict_of(Beat(5, TERM), listing, ClusterState(4)) == Verdict.IS_REWOUND


@given(st.integers(0, 1 << 50), SECONDS, SECONDS)
def test_a_lease_is_never_used_beyond_what_etcd_and_the_cluster_know(sent_ms, granted_s, lease_s):
    end_ms = rules.lease_end_ms(sent_ms=sent_ms, granted_s=granted_s, lease_s=lease_s)

    last_ms = sent_ms + 1000 * min(granted_s, lease_s)
    assert sent_ms < end_ms <= last_ms - rules.MARGIN_MS_MIN


def test_only_a_lease_that_is_over_fences():
    assert [rules.left_by(ttl_s) for ttl_s in (0, 1, 60)] == [
        LeftBy.LEASE,
        LeftBy.REMOVAL,
        LeftBy.REMOVAL,
    ]


def test_a_lease_that_may_end_early_fences_nobody():
    assert rules.left_by(0, is_early=True) == LeftBy.REMOVAL


@pytest.mark.parametrize(
    ("version", "members", "is_early"),
    [
        ("3.4.23", 1, False),
        ("3.4.23", 3, True),
        ("3.4.31", 3, False),
        ("3.5.0", 3, True),
        ("3.5.12", 3, True),
        ("3.5.13", 3, False),
        ("3.6.0-rc.1", 3, False),
        ("4.0.0", 3, False),
        ("new", 3, True),
    ],
)
def test_etcds_that_end_leases_early_are_known(version, members, is_early):
    assert rules.may_end_early(version, members=members) == is_early


# ---- joining -------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 40), SECONDS)
def test_a_free_name_and_ones_own_are_taken_at_once(waited_ms, lease_s):
    for held in (None, A):
        assert rules.join_of(held, boot=1, waited_ms=waited_ms, lease_s=lease_s) == Join.GO


@given(st.integers(0, 1 << 40), SECONDS)
def test_a_held_name_is_waited_for_as_long_as_its_lease_can_last(waited_ms, lease_s):
    choice = rules.join_of(A, boot=2, waited_ms=waited_ms, lease_s=lease_s)

    assert choice == (Join.WAIT if waited_ms <= lease_s * 1000 + 1000 else Join.REFUSE)


def step(*others: NodeKey, away_ms: int | None = None, ramp_ms: int = 10_000) -> int:
    state = ClusterState(nodes={key.member.name: key for key in others})
    return rules.first_step(state, "a", away_ms=away_ms, ramp_ms=ramp_ms)


def test_only_a_newcomer_among_others_begins_small():
    last = len(RAMP_PERCENT) - 1

    assert step(B) == 0
    assert step(B, away_ms=rules.RETURN_MS + 1) == 0
    assert step() == step(A) == last
    assert step(B, away_ms=1000) == last
    assert step(B, ramp_ms=0) == last


@given(st.integers(1, 10_000))
def test_a_ramp_only_grows_and_ends_at_the_whole_weight(weight):
    weights = [rules.weight_of(weight, step) for step in range(len(RAMP_PERCENT))]

    assert weights == sorted(weights) and weights[0] >= 1 and weights[-1] == weight
    states = [rules.state_at(step) for step in range(len(RAMP_PERCENT))]
    assert states == [NodeState.JOINING] * (len(states) - 1) + [NodeState.ACTIVE]


@given(st.integers(0, 1), st.integers(0, 200_000), st.integers(0, 10_000), st.none() | st.just(3))
def test_a_step_waits_for_moves_but_not_for_ever(at, lasted_ms, ramp_ms, moves_left):
    def is_due(moves):
        return rules.is_step_due(step=at, lasted_ms=lasted_ms, ramp_ms=ramp_ms, moves_left=moves)

    assert is_due(0) == (lasted_ms >= ramp_ms // 2)
    assert is_due(moves_left) == (lasted_ms >= ramp_ms // 2 * rules.RAMP_PATIENCE)


def test_after_the_last_step_there_is_none():
    last = len(RAMP_PERCENT) - 1

    assert not rules.is_step_due(step=last, lasted_ms=1 << 40, ramp_ms=0, moves_left=0)


# ---- leaving -------------------------------------------------------------------------------------


def test_a_node_drains_only_when_another_can_take_over():
    going = NodeKey(Member("b", ("h:1",), state=NodeState.DRAINING), lease=5)

    assert rules.may_drain(ClusterState(nodes={"a": A, "b": B}), "a")
    assert not rules.may_drain(ClusterState(nodes={"a": A}), "a")
    assert not rules.may_drain(ClusterState(nodes={"a": A, "b": going}), "a")
    assert not rules.may_drain(ClusterState(nodes={"b": B}), "a")


@given(st.integers(0, 9), st.integers(0, 9), st.booleans(), st.integers(0, 2), st.integers(0, 2))
def test_all_is_handed_over_when_nothing_is_left_in_the_epoch_of_leaving(
    epoch, draining_epoch, is_settled, moves_left, records_left
):
    counts = {
        "epoch": epoch,
        "is_settled": int(is_settled),
        "moves_left": moves_left,
        "records_left": records_left,
    }

    is_done = rules.is_handed_over(counts, draining_epoch=draining_epoch)

    is_empty = moves_left == records_left == 0
    assert is_done == (0 < draining_epoch <= epoch and is_settled and is_empty)
