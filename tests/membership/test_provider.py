"""What holds for every provider."""

from __future__ import annotations

import pytest
from membership.members import Members
from membership.recorded_core import RecordedCore
from membership.stores import STORES

from gd2fs.membership import Peer, Replicas
from gd2fs.membership.state import NodeState
from gd2fs.membership.static import StaticProvider
from gd2fs.testing.cluster import free_ports

pytestmark = pytest.mark.slow
TWO_COPIES = Replicas(2, (("kv", 3),))


@pytest.fixture(params=["static", *STORES])
def provider(request):
    """One of a node `a` that is alone."""
    if request.param in STORES:
        group = Members(request.getfixturevalue(f"{request.param}_store"))
        yield group.provider("a", replicas=TWO_COPIES)
        group.end()
        return
    me = Peer("a", (f"127.0.0.1:{free_ports(1)[0]}",))
    one = StaticProvider(cluster="c", me=me, peers=[me], replicas=TWO_COPIES)
    yield one
    one.leave()


def test_the_first_map_has_the_node_itself_and_the_settings(provider):
    first = provider.first_map()

    assert [each.name for each in first.members] == ["a"]
    assert first.epoch >= 1
    assert first.settings.replicas == TWO_COPIES
    assert (first.settings.lease_s > 0) == (provider.kind != "static")


def test_a_node_that_joined_is_active_and_ready(provider):
    core = RecordedCore()
    first = provider.first_map()

    provider.join(core)

    assert provider.state() == NodeState.ACTIVE and provider.nodes() == 1
    assert provider.why_not_ready() == "" and not provider.is_over.is_set()
    assert all(told.epoch > first.epoch for told in core.maps)


def test_leases_are_kept_where_there_are_any(provider):
    core = RecordedCore()
    lease_s = provider.first_map().settings.lease_s
    provider.join(core)

    left_s = provider.lease_left_s()

    assert (left_s is None) == (lease_s == 0)
    assert core.is_leased == (lease_s > 0)


def test_leaving_twice_is_fine_and_tells_the_core_nothing_more(provider):
    core = RecordedCore()
    provider.first_map()
    provider.join(core)

    provider.leave()
    told = len(core.maps)
    provider.leave()

    assert len(core.maps) == told and core.until_ms == 0


def test_leaving_before_joining_is_fine(provider):
    provider.first_map()

    provider.leave()
