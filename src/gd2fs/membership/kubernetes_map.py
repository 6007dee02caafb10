"""MapObject: a whole cluster in one ConfigMap, and the changes that led there. Pure.

Every change has an epoch of its own, the next one. Who saw an older version of the object finds the
changes since then in it, and applies them one by one as everybody else does; only who is further
behind than they reach has a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.state import SETTINGS, ClusterState, Delete, Event, LeftBy, Put, state_of

CHANGES_MAX = 256  # that an object remembers
OBJECT_BYTES_MAX = 1_000_000  # the API takes 1 MiB
FIELDS = ("epoch", "nodes", "settings", "changes")


class _Key(msgspec.Struct):
    epoch: int
    value: msgspec.Raw
    lease: int = 0


class _Change(msgspec.Struct):
    """A put; without a value a delete."""

    epoch: int
    key: str
    value: msgspec.Raw = msgspec.Raw(b"")
    lease: int = 0
    left_by: str = ""


class _Deleted(msgspec.Struct):
    epoch: int
    key: str
    left_by: str


@dataclass(frozen=True, slots=True)
class MapObject:
    """One version of it.

    Attributes:
        uid: Of the object; another one that was made after it has another.
        version: What the API calls this version; empty: it has yet to be made.
        epoch: Of the last change; 0: there was none.
        puts: What every key was last put with.
        changes: The last ones, oldest first, without a gap.
    """

    uid: str = ""
    version: str = ""
    epoch: int = 0
    puts: Mapping[str, Put] = field(default_factory=dict)
    changes: Sequence[Event] = ()

    def state(self) -> ClusterState:
        """What is known of the cluster by this version."""
        return state_of(self.puts.values(), revision=self.epoch, epoch=self.epoch)

    def changes_after(self, epoch: int) -> Sequence[Event] | None:
        """What happened since then, oldest first; None when it is not remembered."""
        missing = self.epoch - epoch
        if missing > len(self.changes):
            return None
        return self.changes[len(self.changes) - missing :] if missing > 0 else ()

    def with_changes(self, events: Iterable[Event], *, first_epoch: int) -> MapObject:
        """After these, whose revisions do not matter: the next epochs are theirs.

        ``first_epoch``: of the very first change of a cluster.
        """
        puts, changes, epoch = dict(self.puts), list(self.changes), self.epoch
        for event in events:
            epoch = epoch + 1 if epoch else first_epoch
            event = replace(event, revision=epoch)
            changes.append(event)
            if isinstance(event, Put):
                puts[event.key] = event
            else:
                puts.pop(event.key, None)
        return replace(self, epoch=epoch, puts=puts, changes=tuple(changes[-CHANGES_MAX:]))

    def as_data(self) -> dict[str, str]:
        """The ``data`` of the ConfigMap.

        Raises:
            InvalidRequest: The cluster is too large for one object.
        """
        nodes = {
            key: _Key(put.revision, msgspec.Raw(put.value), put.lease)
            for key, put in self.puts.items()
        }
        settings = nodes.pop(SETTINGS, None)
        data = {
            "epoch": str(self.epoch),
            "nodes": _by_lines("{}", [f"{_json(key)}:{_json(nodes[key])}" for key in nodes]),
            "settings": _json(settings),
            "changes": _by_lines("[]", [_json(_change_of(event)) for event in self.changes]),
        }
        size = sum(len(text.encode()) for text in data.values())
        if size > OBJECT_BYTES_MAX:
            raise InvalidRequest(
                f"the map of the cluster has {size} bytes, {OBJECT_BYTES_MAX} at most",
                hint="give nodes fewer addresses, or make a second cluster",
            )
        return data


def read_map(config_map: Mapping[str, Any]) -> MapObject:
    """What a ConfigMap says. One without ``data`` is a cluster that is yet to be founded.

    Raises:
        Unavailable: It is none of ours, or somebody has changed it by hand.
    """
    meta, data = config_map.get("metadata", {}), config_map.get("data") or {}
    uid, version = str(meta.get("uid", "")), str(meta.get("resourceVersion", ""))
    if not any(name in data for name in FIELDS):
        return MapObject(uid, version)
    try:
        nodes = msgspec.json.decode(data["nodes"], type=dict[str, _Key])
        settings = msgspec.json.decode(data["settings"], type=_Key | None)
        changes = msgspec.json.decode(data["changes"], type=list[_Change])
        keys = {**nodes, **({SETTINGS: settings} if settings else {})}
        puts = {name: Put(name, bytes(k.value), k.epoch, k.lease) for name, k in keys.items()}
        read = MapObject(
            uid, version, int(data["epoch"]), puts, tuple(_event_of(c) for c in changes)
        )
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError) as error:
        raise Unavailable(
            f"ConfigMap {meta.get('name')} is no map of a cluster: {error}",
            hint="somebody changed it by hand: undo that",
        ) from error
    expected = range(read.epoch - len(changes) + 1, read.epoch + 1)
    if [each.epoch for each in changes] != list(expected):
        raise Unavailable(
            f"ConfigMap {meta.get('name')} lacks changes of its cluster",
            hint="somebody changed it by hand: undo that",
        )
    return read


def _change_of(event: Event) -> _Change | _Deleted:
    if isinstance(event, Put):
        return _Change(event.revision, event.key, msgspec.Raw(event.value), event.lease)
    return _Deleted(event.revision, event.key, event.left_by.name.lower())


def _event_of(change: _Change) -> Event:
    if bytes(change.value):
        return Put(change.key, bytes(change.value), change.epoch, change.lease)
    return Delete(change.key, change.epoch, LeftBy[change.left_by.upper()])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _by_lines(brackets: str, items: Sequence[str]) -> str:
    """A line for each, for people who look at the object."""
    return brackets[0] + ",\n".join(items) + brackets[1]
