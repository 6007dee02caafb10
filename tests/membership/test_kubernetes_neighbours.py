"""Who is taken for silent, and when: pure decisions, no clock and no API."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gd2fs.membership.kubernetes_leases import HeldLease
from gd2fs.membership.kubernetes_neighbours import (
    GAPS_PER_LEASE,
    WATCHED,
    is_silent,
    left_by,
    look,
    watched_by,
)
from gd2fs.membership.rules import lease_end_ms
from gd2fs.membership.state import LeftBy, Member, NodeKey

LEASE_S = 5
LEASE_MS = LEASE_S * 1000
NAMES = st.sets(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.data(), st.integers(1, 60))
def test_whoever_is_taken_for_silent_has_stopped_by_its_own_clock(data, lease_s):
    """A holder writes when it likes, an observer looks when it likes; their clocks are apart."""
    apart_ms = data.draw(st.integers(-(1 << 40), 1 << 40))
    now_ms, version, until_ms, sight = 0, 0, -1, None
    for _ in range(data.draw(st.integers(1, 30))):
        now_ms += data.draw(st.integers(0, lease_s * 700))
        if data.draw(st.booleans()):
            sent_ms = now_ms - data.draw(st.integers(0, lease_s * 1000))  # it was long on its way
            version += 1
            until_ms = lease_end_ms(sent_ms=sent_ms, granted_s=lease_s, lease_s=lease_s)
        sight = look(sight, str(version), now_ms=now_ms + apart_ms, lease_s=lease_s)
        if is_silent(sight, lease_s=lease_s):
            assert until_ms < now_ms


def test_a_lease_that_does_not_change_is_over_after_its_time():
    sight = None
    for at_ms in range(0, LEASE_MS + 1, 1000):
        assert sight is None or not is_silent(sight, lease_s=LEASE_S)
        sight = look(sight, "7", now_ms=at_ms, lease_s=LEASE_S)

    assert is_silent(sight, lease_s=LEASE_S)


def test_what_happened_while_nobody_could_look_counts_for_nobody():
    sight = look(None, "7", now_ms=0, lease_s=LEASE_S)
    late_ms = LEASE_MS // GAPS_PER_LEASE + 1
    sight = look(sight, "7", now_ms=late_ms, lease_s=LEASE_S)

    assert sight.since_ms == late_ms


@settings(deadline=None)
@given(NAMES)
def test_every_node_is_looked_after_by_others(names):
    watchers = {name: watched_by(name, names) for name in names}

    for name, watched in watchers.items():
        assert name not in watched and set(watched) <= names
        assert len(watched) == len(set(watched)) == min(WATCHED, len(names) - 1)
    for name in names:
        count = sum(name in watched for watched in watchers.values())
        assert count == min(WATCHED, len(names) - 1)


@settings(deadline=None, max_examples=40)
@given(NAMES, st.data())
def test_when_any_nodes_go_all_others_are_found_out_in_turn(names, data):
    """Take out whoever is looked after by a living one, again and again: nobody dead is left."""
    alive = data.draw(st.sets(st.sampled_from(sorted(names)), min_size=1))
    left = set(names)

    for _ in names:
        left -= {each for name in alive for each in watched_by(name, left)} - alive

    assert left == alive


def key(lease: int) -> NodeKey:
    return NodeKey(Member("a", ("h:1",), boot=9), lease)


def test_how_a_node_left_is_what_its_lease_says():
    held, free = HeldLease("a", 9, 4, "1"), HeldLease("a", 0, 4, "1")

    assert left_by(key(4), held) == LeftBy.NOTHING
    assert left_by(key(4), free) == LeftBy.LEASE
    assert left_by(key(3), free) == LeftBy.LEASE
    assert left_by(key(5), free) == LeftBy.NOTHING
    assert left_by(key(4), None) == LeftBy.REMOVAL
