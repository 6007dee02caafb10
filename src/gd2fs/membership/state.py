"""State: what is known of a cluster at one revision, and the map that follows from it.

Pure. A state is a value; `advance` takes it and all events of one revision to the next one. Every
node that applies the same events has the same maps, so what cannot be read counts as not there,
everywhere alike. An event of a node or of the settings makes an epoch, its revision; others do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import msgspec

from gd2fs.errors import InvalidRequest
from gd2fs.membership.peers import (
    ADDRESSES_PER_NODE_MAX,
    NODES_MAX,
    check_node_name,
    parse_address,
)
from gd2fs.membership.replicas import ONE_COPY, Replicas

NODES = "nodes/"  # before the name of a node
SETTINGS = "settings"
CHANGES = "changes"  # rewritten with every put: what it says is nothing, its revision is all
WEIGHT_DEFAULT = 100
WEIGHT_MAX = 10_000
LEASE_S_MAX = 3_600


class NodeState(IntEnum):
    """As the wire counts them."""

    JOINING = 0
    ACTIVE = 1
    DRAINING = 2
    GONE = 3


class LeftBy(IntEnum):
    """How a node left: with its lease over it cannot answer for records any more."""

    NOTHING = 0
    LEASE = 1
    REMOVAL = 2


@dataclass(frozen=True, slots=True)
class Member:
    """One node as the map has it. ``boot`` 0: not known."""

    name: str
    addresses: tuple[str, ...]
    weight: int = WEIGHT_DEFAULT
    boot: int = 0
    state: NodeState = NodeState.ACTIVE
    left_by: LeftBy = LeftBy.NOTHING


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the whole cluster. ``lease_s`` 0: there are no leases."""

    replicas: Replicas = ONE_COPY
    lease_s: int = 0


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """One epoch, as it is told to the core. Nodes that left are in their first map only."""

    epoch: int
    members: tuple[Member, ...]
    settings: Settings = Settings()

    def find(self, name: str) -> Member | None:
        """The node of that name, unless it is gone."""
        found = (each for each in self.members if each.name == name)
        return next((each for each in found if each.state != NodeState.GONE), None)


@dataclass(frozen=True, slots=True)
class Put:
    """``key`` got a value. ``key`` is without the cluster's prefix; ``lease`` 0: none."""

    key: str
    value: bytes
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """``key`` is gone. ``left_by`` matters where it was a node's."""

    key: str
    revision: int
    left_by: LeftBy = LeftBy.REMOVAL


Event = Put | Delete


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node that is there, and the lease that keeps it."""

    member: Member
    lease: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All that was applied up to ``revision``.

    Attributes:
        epoch: The last revision that made a map.
        nodes: By name.
        revisions: Of every key under the prefix, what it was last put with.
        left: Who is gone since the map before.
    """

    revision: int = 0
    epoch: int = 0
    nodes: Mapping[str, NodeKey] = field(default_factory=dict)
    settings: Settings | None = None
    revisions: Mapping[str, int] = field(default_factory=dict)
    left: tuple[Member, ...] = ()


def advance(state: ClusterState, events: Sequence[Event]) -> ClusterState:
    """The state after all events of one revision; the same one when it is not newer."""
    revision = events[0].revision
    assert all(event.revision == revision for event in events)
    if revision <= state.revision:
        return state
    nodes, revisions = dict(state.nodes), dict(state.revisions)
    settings = state.settings
    left: list[Member] = []
    for event in events:
        if isinstance(event, Put):
            revisions[event.key] = revision
        else:
            revisions.pop(event.key, None)
        if event.key == SETTINGS and isinstance(event, Put):
            settings = read_settings(event.value) or settings
        elif event.key.startswith(NODES):
            left += _take(nodes, event)
    is_map = any(event.key == SETTINGS or event.key.startswith(NODES) for event in events)
    return ClusterState(
        revision=revision,
        epoch=revision if is_map else state.epoch,
        nodes=nodes,
        settings=settings,
        revisions=revisions,
        left=tuple(left) if is_map else state.left,
    )


def caught_up(state: ClusterState, revision: int) -> ClusterState:
    """The same when it is known that nothing else happened up to ``revision``."""
    return replace(state, revision=max(state.revision, revision))


def state_of(puts: Iterable[Put], *, revision: int, epoch: int | None = None) -> ClusterState:
    """What a listing of all keys at ``revision`` says.

    ``epoch``: where it is known to be that; else the newest node or setting that is still there.
    """
    nodes: dict[str, NodeKey] = {}
    settings: Settings | None = None
    revisions: dict[str, int] = {}
    newest = 0
    for put in puts:
        revisions[put.key] = put.revision
        if put.key == SETTINGS:
            settings = read_settings(put.value)
        elif put.key.startswith(NODES):
            _take(nodes, put)
        if put.key == SETTINGS or put.key.startswith(NODES):
            newest = max(newest, put.revision)
    return ClusterState(revision, newest if epoch is None else epoch, nodes, settings, revisions)


def map_of(state: ClusterState) -> ClusterMap:
    """The map of a state."""
    members = [key.member for key in state.nodes.values()] + list(state.left)
    members.sort(key=lambda member: (member.name, member.state))
    return ClusterMap(state.epoch, tuple(members), state.settings or Settings())


def _take(nodes: dict[str, NodeKey], event: Event) -> list[Member]:
    """Apply the event of one node; that node when it left by it."""
    name = event.key.removeprefix(NODES)
    before = nodes.pop(name, None)
    left_by = LeftBy.REMOVAL
    if isinstance(event, Put):
        member = read_member(name, event.value)
        if member and (before or len(nodes) < NODES_MAX):
            nodes[name] = NodeKey(member, event.lease)
            return []
    else:
        left_by = event.left_by
    if before is None:
        return []
    return [replace(before.member, state=NodeState.GONE, left_by=left_by)]


# ---- the values of the keys ----------------------------------------------------------------------


class _NodeValue(msgspec.Struct):
    boot: int
    weight: int
    state: str
    addresses: list[str]


class _SettingsValue(msgspec.Struct):
    replicas: int
    lease_s: int
    namespaces: dict[str, int] = {}


def write_member(member: Member) -> bytes:
    """The value of a node's key."""
    value = _NodeValue(
        member.boot, member.weight, member.state.name.lower(), list(member.addresses)
    )
    return msgspec.json.encode(value)


def read_member(name: str, value: bytes) -> Member | None:
    """What the key of node ``name`` says; None when that is no node."""
    try:
        read = msgspec.json.decode(value, type=_NodeValue)
        state = NodeState[read.state.upper()]
        check_node_name(name)
        for address in read.addresses:
            parse_address(address)
    except (msgspec.MsgspecError, KeyError, InvalidRequest, UnicodeError):
        return None
    is_sane = (
        1 <= len(read.addresses) <= ADDRESSES_PER_NODE_MAX
        and 1 <= read.weight <= WEIGHT_MAX
        and 0 <= read.boot < 1 << 64
        and state != NodeState.GONE
    )
    return Member(name, tuple(read.addresses), read.weight, read.boot, state) if is_sane else None


def write_settings(settings: Settings) -> bytes:
    """The value of the key `settings`."""
    replicas = settings.replicas
    value = _SettingsValue(replicas.default, settings.lease_s, dict(replicas.namespaces))
    return msgspec.json.encode(value)


def read_settings(value: bytes) -> Settings | None:
    """What the key `settings` says; None when that is nothing that could hold."""
    try:
        read = msgspec.json.decode(value, type=_SettingsValue)
        replicas = Replicas(read.replicas, tuple(read.namespaces.items()))
    except (msgspec.MsgspecError, InvalidRequest, UnicodeError):
        return None
    return Settings(replicas, read.lease_s) if 1 <= read.lease_s <= LEASE_S_MAX else None
