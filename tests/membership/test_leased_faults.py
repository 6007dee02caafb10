"""What members do when their store goes away, forgets, or is changed by somebody."""

from __future__ import annotations

import pytest
from membership.proxy import Proxy
from membership.recorded_core import RecordedCore, wait_until
from membership.test_leased_join import ACTIVE, BY_LEASE, BY_REMOVAL, GONE

from gd2fs.errors import InvalidRequest

pytestmark = pytest.mark.slow


# ---- the store goes away -------------------------------------------------------------------------


def test_a_restart_of_the_store_is_no_event(own_store, own_members):
    provider, core = own_members.start("a")
    told = len(core.maps)

    own_store.stop()
    own_store.start()
    before = core.until_ms
    wait_until(lambda: core.until_ms > before, "a keep-alive")

    assert len(core.maps) == told and provider.why_not_ready() == ""


def test_without_the_store_a_member_goes_on_until_its_lease_ends_and_returns_with_it(
    own_store, own_members
):
    provider, core = own_members.start("a")
    own_store.stop()
    assert core.is_leased

    wait_until(lambda: not core.is_leased, "the end of the lease")
    assert provider.why_not_ready().startswith("fenced: no keep-alive counts; ")
    own_store.start()

    wait_until(lambda: core.is_leased, "another lease")
    assert provider.why_not_ready() == ""


def test_a_member_that_was_cut_off_joins_again_with_the_same_boot(members, store):
    _, stays = members.start("a")
    with Proxy(store.port) as proxy:
        apart = members.apart(proxy.endpoint)
        _, core = apart.start("b")
        boot = boot_of(core, "b")
        proxy.cut()

        left = stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_LEASE))
        assert not core.is_leased
        proxy.mend()

        back = stays.wait_for(
            lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0)
        )
        core.wait_for(lambda told: told.epoch == back.epoch)
        wait_until(lambda: core.is_leased, "another lease")
        assert boot_of(core, "b") == boot
        assert (GONE, BY_LEASE) in [told.states.get("b") for told in core.maps]
        assert not any(told.is_gap for told in core.maps)
        apart.end()


def boot_of(core: RecordedCore, name: str) -> int:
    return next(node[3] for node in core.last.nodes if node[0] == name)


def test_events_that_the_store_has_forgotten_are_a_gap(members, store):
    with Proxy(store.port) as proxy:
        apart = members.apart(proxy.endpoint)
        _, core = apart.start("a", lease_s=20)  # it keeps its lease all the time
        proxy.cut()
        _, other = members.start("b")
        members.start("c")
        store.forget(members.cluster)
        proxy.mend()

        gap = core.wait_for(lambda told: told.is_gap)

        assert gap.states == {name: (ACTIVE, 0) for name in "abc"}
        assert other.wait_for(lambda told: told.epoch == gap.epoch)  # an epoch for all
        members.start("d")
        core.wait_for(lambda told: not told.is_gap and "d" in told.states)
        apart.end()


def test_a_store_that_was_emptied_is_not_believed(own_store, own_members):
    provider, core = own_members.start("a")
    for _ in range(3):
        keys = own_members.keys()
        now = keys.snapshot()
        keys.put_settings(now.settings, expected_revision=now.revisions["settings"])
    last = own_members.keys().snapshot().revision
    core.wait_for(lambda told: told.epoch == last)

    own_store.stop()
    own_store.empty()
    own_store.start()

    assert provider.is_over.wait(20) and "start this node again" in provider.fault
    assert core.until_ms == 0


# ---- somebody changes it -------------------------------------------------------------------------


def test_a_member_that_an_operator_took_away_returns(members, store):
    _, stays = members.start("a")
    _, core = members.start("b")

    store.take_away(members.cluster, "b")

    left = stays.wait_for(lambda told: told.states.get("b") == (GONE, BY_REMOVAL))
    stays.wait_for(lambda told: told.epoch > left.epoch and told.states.get("b") == (ACTIVE, 0))
    assert core.wait_for(lambda told: told.epoch == left.epoch)


def test_what_nobody_can_read_is_no_node(members, store):
    _, core = members.start("a")

    store.put_junk(members.cluster, "nodes/junk")

    before = core.until_ms
    wait_until(lambda: core.until_ms > before + 1000, "keep-alives")
    assert core.last.states == {"a": (ACTIVE, 0)}


def test_broken_settings_keep_a_newcomer_out(members, store):
    store.put_junk(members.cluster, "settings")

    with pytest.raises(InvalidRequest, match="settings of cluster"):
        members.provider("a").first_map()


def test_a_member_whose_name_another_process_took_ends(members, store):
    with Proxy(store.port) as proxy:
        apart = members.apart(proxy.endpoint)
        provider, core = apart.start("a")
        proxy.cut()
        members.start("a")  # waits for the lease to end
        proxy.mend()

        assert provider.is_over.wait(20) and "another process" in provider.fault
        assert core.until_ms == 0
        apart.end()
