"""Histories: what can happen under the prefix of a cluster, as etcd would have it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from gd2fs.membership.replicas import Replicas
from gd2fs.membership.state import (
    CHANGES,
    NODES,
    SETTINGS,
    Delete,
    Event,
    LeftBy,
    Member,
    NodeState,
    Put,
    Settings,
    write_member,
    write_settings,
)

NAMES = ("a", "b", "c/d")


@dataclass
class History:
    """Keys as they are at the end, and what led there: one list of events for each revision."""

    first_revision: int
    events: list[list[Event]] = field(default_factory=list)
    keys: list[dict[str, Put]] = field(default_factory=list)  # after each of `events`

    @property
    def revision(self) -> int:
        return self.first_revision + len(self.events) - 1

    def keys_at(self, revision: int) -> dict[str, Put]:
        """What a listing says then."""
        index = revision - self.first_revision
        return self.keys[index] if index >= 0 else {}

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        revision = self.revision + 1
        puts = [Put(key, value, revision, lease), Put(CHANGES, b"", revision)]
        self._take(list(puts))

    def delete(self, key: str, left_by: LeftBy) -> None:
        """As a lease or an operator does: `changes` stays as it was."""
        if key in self.keys_at(self.revision):
            self._take([Delete(key, self.revision + 1, left_by)])

    def other(self) -> None:
        """Somebody else uses etcd too."""
        self._take([])

    def _take(self, events: list[Event]) -> None:
        keys = dict(self.keys_at(self.revision))
        for event in events:
            if isinstance(event, Put):
                keys[event.key] = event
            else:
                del keys[event.key]
        self.events.append(events)
        self.keys.append(keys)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Nodes that come, change and go; settings; values that nobody can read."""
    history = History(first_revision=draw(st.integers(2, 1 << 40)))
    for _ in range(draw(st.integers(1, 12))):
        key = NODES + draw(st.sampled_from(NAMES))
        match draw(st.sampled_from(("node", "node", "leave", "settings", "broken", "other"))):
            case "node":
                history.put(key, write_member(draw(members())), draw(st.integers(1, 1 << 60)))
            case "leave":
                history.delete(key, draw(st.sampled_from((LeftBy.LEASE, LeftBy.REMOVAL))))
            case "settings":
                history.put(SETTINGS, write_settings(draw(settings())))
            case "broken":
                history.put(draw(st.sampled_from((key, "junk"))), draw(st.binary(max_size=20)))
            case "other":
                history.other()
    return history


def members() -> st.SearchStrategy[Member]:
    """Nodes whose names do not matter."""
    return st.builds(
        Member,
        st.just("x"),
        st.lists(st.integers(1, 65_535), min_size=1, max_size=3).map(
            lambda ports: tuple(f"h:{port}" for port in ports)
        ),
        st.integers(1, 10_000),
        st.integers(0, (1 << 64) - 1),
        st.sampled_from((NodeState.JOINING, NodeState.ACTIVE, NodeState.DRAINING)),
    )


def settings() -> st.SearchStrategy[Settings]:
    """Of clusters."""
    copies = st.integers(1, 8)
    names = st.dictionaries(st.text("kv-é", min_size=1, max_size=5), copies, max_size=3)
    replicas = st.builds(Replicas, copies, names.map(lambda each: tuple(each.items())))
    return st.builds(Settings, replicas, st.integers(1, 3600))
