"""What follows from events: equal states everywhere, epochs that grow, nodes that come and go."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from membership.histories import History, histories, members, settings

from gd2fs.errors import InvalidRequest
from gd2fs.membership.replicas import Replicas, parse_replicas
from gd2fs.membership.state import (
    NODES,
    SETTINGS,
    ClusterState,
    LeftBy,
    NodeState,
    Put,
    Settings,
    advance,
    map_of,
    read_member,
    read_settings,
    state_of,
    write_member,
    write_settings,
)


def replayed(history: History, upto: int | None = None) -> list[ClusterState]:
    """The states after each revision that had events."""
    states = [ClusterState(revision=history.first_revision - 1)]
    for events in history.events[:upto]:
        if events:
            states.append(advance(states[-1], events))
    return states


@given(histories())
def test_a_listing_and_the_events_before_it_say_the_same(history):
    state = replayed(history)[-1]

    listed = state_of(history.keys_at(history.revision).values(), revision=history.revision)

    assert listed.nodes == state.nodes
    assert listed.revisions == state.revisions


@given(histories())
def test_epochs_grow_with_events_of_nodes_and_settings_only(history):
    states = replayed(history)

    for before, after in itertools.pairwise(states):
        keys = {event.key for event in history.events[after.revision - history.first_revision]}
        is_map = SETTINGS in keys or any(key.startswith(NODES) for key in keys)
        assert after.epoch == (after.revision if is_map else before.epoch)
        if not is_map:
            assert map_of(after) == map_of(before)


@given(histories())
def test_who_left_is_in_the_first_map_without_it_and_in_no_other(history):
    states = replayed(history)

    for before, after in itertools.pairwise(states):
        gone = {each.name for each in map_of(after).members if each.state == NodeState.GONE}
        if after.epoch != before.epoch:
            assert gone == set(before.nodes) - set(after.nodes)


@given(histories(), st.data())
def test_events_that_are_told_again_change_nothing(history, data):
    states = replayed(history)
    again_from = data.draw(st.integers(0, len(history.events)))

    state = reduce(advance, filter(None, history.events[again_from:]), states[-1])

    assert state == states[-1]


@given(histories())
def test_settings_that_cannot_be_read_leave_those_before(history):
    last = None
    for events in history.events:
        for event in events:
            if event.key == SETTINGS:
                last = read_settings(event.value) or last

    assert replayed(history)[-1].settings == last


@given(members())
def test_a_member_reads_back_as_it_was_written(member):
    assert read_member(member.name, write_member(member)) == member


@given(settings())
def test_settings_read_back_as_they_were_written(value):
    assert read_settings(write_settings(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        b"[]",
        b'{"boot":1,"weight":0,"state":"active","addresses":["h:1"]}',
        b'{"boot":1,"weight":99999,"state":"active","addresses":["h:1"]}',
        b'{"boot":-1,"weight":1,"state":"active","addresses":["h:1"]}',
        b'{"boot":1,"weight":1,"state":"gone","addresses":["h:1"]}',
        b'{"boot":1,"weight":1,"state":"asleep","addresses":["h:1"]}',
        b'{"boot":1,"weight":1,"state":"active","addresses":[]}',
        b'{"boot":1,"weight":1,"state":"active","addresses":["h"]}',
    ],
)
def test_what_is_no_node_is_none(value):
    assert read_member("a", value) is None
    assert read_member("a b", write_member(read_member("a", GOOD))) is None


GOOD = b'{"boot":1,"weight":1,"state":"active","addresses":["h:1"],"later":"more"}'


def test_a_node_that_becomes_unreadable_may_still_live():
    state = advance(ClusterState(1), [Put(NODES + "a", GOOD, 2, lease=7)])

    state = advance(state, [Put(NODES + "a", b"?", 3, lease=7)])

    assert [(each.state, each.left_by) for each in map_of(state).members] == [
        (NodeState.GONE, LeftBy.REMOVAL)
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b'{"replicas":0,"lease_s":5}',
        b'{"replicas":2}',
        b'{"replicas":9,"lease_s":5}',
        b'{"replicas":2,"lease_s":0}',
        b'{"replicas":2,"lease_s":5,"namespaces":{"a/b":2}}',
    ],
)
def test_settings_out_of_range_are_none(value):
    assert read_settings(value) is None


def test_replicas_are_read_with_their_exceptions():
    assert parse_replicas("2, kv=3,a=1") == Replicas(2, (("a", 1), ("kv", 3)))
    assert str(Replicas(2, (("kv", 3),))) == "2,kv=3"
    assert Settings(Replicas(2, (("kv", 3),))).replicas.of("kv") == 3


@pytest.mark.parametrize("text", ["", "0", "9", "x", "2,kv", "2,kv=x", "2,=1", "2,a=1,a=2", "kv=2"])
def test_what_is_no_number_of_replicas_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_replicas(text)
