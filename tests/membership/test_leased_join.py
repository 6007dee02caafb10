"""Members of any store with leases: joining, leaving, what others see of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from membership.members import LEASE_S
from membership.recorded_core import wait_until

from gd2fs.errors import InvalidRequest
from gd2fs.membership import Replicas
from gd2fs.membership.state import LeftBy, NodeState

pytestmark = pytest.mark.slow

JOINING, ACTIVE, DRAINING, GONE = (int(state) for state in NodeState)
BY_LEASE, BY_REMOVAL = int(LeftBy.LEASE), int(LeftBy.REMOVAL)


def test_three_members_see_each_other_in_the_same_epoch(members):
    cores = [members.start(name)[1] for name in "abc"]

    everyone = {name: (ACTIVE, 0) for name in "abc"}
    epochs = {core.wait_for(lambda told: told.states == everyone).epoch for core in cores}

    assert len(epochs) == 1


def test_a_member_is_in_the_first_map_but_owns_nothing(members):
    members.start("a")
    joining = members.provider("b")

    cluster = joining.first_map()

    assert [(each.name, each.state) for each in cluster.members] == [
        ("a", NodeState.ACTIVE),
        ("b", NodeState.GONE),
    ]


def test_records_are_answered_for_from_the_join_on(members):
    provider, core = members.start("a")

    assert core.is_leased and provider.why_not_ready() == ""
    assert 0 < provider.lease_left_s() < LEASE_S


def test_keep_alives_go_on(members):
    _, core = members.start("a")
    first_ms = core.until_ms

    wait_until(lambda: core.until_ms > first_ms, "another keep-alive")


def test_who_leaves_is_fenced_before_others_know(members):
    _, stays = members.start("a")
    leaving, left = members.start("b")

    leaving.leave()

    assert left.until_ms == 0
    assert stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))
    known = len(left.maps)
    members.start("c")
    assert stays.wait_for(lambda told: "c" in told.states and "b" not in told.states)
    assert len(left.maps) == known


def test_a_name_that_lives_is_refused(members):
    members.start("a")

    with pytest.raises(InvalidRequest, match=r"another process of cluster .* is node `a` at 127"):
        members.provider("a").first_map()


def test_a_name_is_free_when_its_lease_ends(members):
    _, stays = members.start("a")
    crashed, _ = members.start("b")
    members.store.crash(crashed)

    _, again = members.start("b", ramp_s=5.0)

    assert again.last.states["b"] == (ACTIVE, 0)  # it was away for a moment only
    assert stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))


def test_a_later_member_grows_in_steps(members):
    members.start("a")
    _, core = members.start("b", ramp_s=0.4, weight=40)

    core.wait_for(lambda told: told.states["b"] == (ACTIVE, 0))

    steps = [(node[2], node[4]) for told in core.maps for node in told.nodes if node[0] == "b"]
    assert steps == [(10, JOINING), (20, JOINING), (40, ACTIVE)]


def test_a_member_that_is_asked_to_goes_when_all_is_handed_over(members):
    _, stays = members.start("a")
    going, core = members.start("b")
    core.moves_left = 3
    core.wishes_draining = True

    stays.wait_for(lambda told: told.states.get("b") == (DRAINING, 0))
    wait_until(lambda: going.why_not_ready() == "the node is draining", "draining")
    assert not going.is_over.is_set()
    core.moves_left = 0

    stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))
    assert going.is_over.wait(5) and going.fault == "" and core.until_ms == 0


def test_the_last_member_does_not_drain(members):
    _, core = members.start("a")
    core.wishes_draining = True
    before = core.until_ms

    wait_until(lambda: core.until_ms > before, "another keep-alive")

    assert core.last.states["a"] == (ACTIVE, 0)


def test_settings_of_the_first_member_hold_for_all(members):
    members.start("a", replicas=Replicas(2, (("kv", 3),)))
    other, core = members.start("b", replicas=Replicas(1), lease_s=30)

    assert (core.last.replicas, core.last.namespaces) == (2, [("kv", 3)])
    assert other.lease_left_s() < LEASE_S


def test_a_changed_setting_is_an_epoch(members):
    _, core = members.start("a")
    keys = members.keys()
    before = keys.snapshot()

    changed = replace(before.settings, replicas=Replicas(2))
    revision = keys.put_settings(changed, expected_revision=before.revisions["settings"])

    assert core.wait_for(lambda told: told.replicas == 2).epoch == revision
