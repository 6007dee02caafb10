"""The map in one object: what it says is what happened, and nobody has to be there to know."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from membership.histories import members, settings

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership import Replicas
from gd2fs.membership.kubernetes_map import CHANGES_MAX, MapObject, read_map
from gd2fs.membership.kubernetes_names import PLAIN, label_of, lease_name
from gd2fs.membership.state import (
    NODES,
    SETTINGS,
    ClusterState,
    Delete,
    LeftBy,
    Member,
    Put,
    Settings,
    advance,
    write_member,
    write_settings,
)

FIRST = 1_700_000_000
MEMBER = write_member(Member("x", ("h:1",), boot=7))


def config_map(made: MapObject) -> dict:
    meta = {"uid": made.uid, "resourceVersion": made.version, "name": "gd2fs.c"}
    return {"metadata": meta, "data": made.as_data()}


@st.composite
def versions(draw: st.DrawFn) -> list[MapObject]:
    """Of one object, each after one more write of one or two changes."""
    made = [MapObject("u", "1")]
    for _ in range(draw(st.integers(1, 8))):
        name = NODES + draw(st.sampled_from(("a", "b", "c/d")))
        kind = draw(st.sampled_from(("put", "put", "leave", "again", "settings")))
        put = Put(name, write_member(draw(members())), 0, draw(st.integers(1, 1 << 31)))
        gone = Delete(name, 0, draw(st.sampled_from((LeftBy.LEASE, LeftBy.REMOVAL))))
        said = Put(SETTINGS, write_settings(draw(settings())), 0)
        events = {"put": [put], "leave": [gone], "again": [gone, put], "settings": [said]}[kind]
        made.append(made[-1].with_changes(events, first_epoch=FIRST))
    return made


@effort(deadline=None, max_examples=25)
@given(versions())
def test_what_is_written_is_read(made):
    for each in made[1:]:
        assert read_map(config_map(each)) == each


@effort(deadline=None, max_examples=25)
@given(versions(), st.data())
def test_who_applies_the_changes_has_what_a_newcomer_reads(made, data):
    at = data.draw(st.integers(0, len(made) - 1))
    state = made[at].state()

    for event in made[-1].changes_after(state.epoch) if at else made[-1].changes:
        state = advance(state, [event])

    assert replace(state, left=()) == made[-1].state()


@effort(deadline=None, max_examples=25)
@given(versions())
def test_every_change_has_the_next_epoch(made):
    epochs = [event.revision for event in made[-1].changes]

    assert epochs == list(range(FIRST, FIRST + len(epochs)))
    assert made[-1].epoch == epochs[-1]


def test_who_is_too_far_behind_is_told_so():
    made = MapObject("u", "1")
    for _ in range(CHANGES_MAX + 1):
        made = made.with_changes([Put(NODES + "a", MEMBER, 0, 1)], first_epoch=FIRST)

    assert made.changes_after(FIRST) is not None
    assert made.changes_after(FIRST - 1) is None
    assert made.changes_after(made.epoch) == ()
    assert made.changes_after(made.epoch + 1) == ()


def test_an_object_without_content_is_a_cluster_that_is_yet_to_be():
    empty = read_map({"metadata": {"uid": "u", "resourceVersion": "3"}, "data": {"other": "x"}})

    assert empty == MapObject("u", "3") and empty.state() == ClusterState()


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": "many"},
        {"nodes": "[]"},
        {"changes": "[]", "epoch": ""},
        {"epoch": str(FIRST + 5)},
        {"settings": '{"epoch": "x"}'},
    ],
)
def test_what_somebody_wrote_by_hand_is_not_believed(changed):
    made = MapObject("u", "1").with_changes(
        [Put(SETTINGS, write_settings(Settings(Replicas(), 5)), 0)], first_epoch=FIRST
    )
    written = config_map(made)
    written["data"] |= changed

    with pytest.raises(Unavailable, match=r"ConfigMap gd2fs\.c"):
        read_map(written)


def test_a_map_that_no_object_can_hold_is_refused():
    long = write_member(Member("x", tuple(f"{'h' * 900}{n}:1" for n in range(16)), boot=1))
    puts = [Put(f"{NODES}n{n}", long, 0, 1) for n in range(80)]

    with pytest.raises(InvalidRequest, match="the map of the cluster has"):
        MapObject().with_changes(puts, first_epoch=FIRST).as_data()


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=128)


@effort(deadline=None, max_examples=25)
@given(NAMES)
def test_every_name_becomes_a_label(name):
    assert PLAIN.fullmatch(label_of(name)) and len(label_of(name)) <= 63


@effort(deadline=None, max_examples=25)
@given(NAMES, NAMES, NAMES, NAMES)
def test_different_nodes_have_different_leases(cluster, node, cluster2, node2):
    is_same = (cluster, node) == (cluster2, node2)

    assert (lease_name(cluster, node) == lease_name(cluster2, node2)) == is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a-b", "c"), ("a", "b-c")),
        (("A", "x"), ("a", "x")),
        (("a.b", "c"), ("a-b", "c")),
    ],
)
def test_names_that_look_alike_have_different_leases(one, other):
    assert lease_name(*one) != lease_name(*other)


def test_a_name_cannot_be_taken_for_the_sum_of_another():
    assert label_of(label_of("Ü")) != label_of("Ü")
