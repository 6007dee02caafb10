"""Neighbours: who of the other nodes has gone silent. Each node looks after a few.

A lease says nothing of how late it is: the clocks of two machines are not compared. A node looks
again and again whether it has changed, and times by its own clock how long it has not. Then it has
nobody hold it, which fails when its holder was quicker, and takes its node out of the map.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gd2fs.errors import GD2FSError
from gd2fs.membership.boottime import boottime_ms
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_leases import HeldLease, KubernetesLeases
from gd2fs.membership.rules import BEATS_PER_LEASE
from gd2fs.membership.state import ClusterState, LeftBy, NodeKey

WATCHED = 2  # so many nodes of the ring, before this one: two look after each
LOOK_MS_MIN = 50
GAPS_PER_LEASE = 2  # a longer pause between two looks, and the time begins anew

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sight:
    """A lease as it was seen: since when it is as it is, and when that was last seen."""

    version: str
    since_ms: int
    seen_ms: int


def look(before: Sight | None, version: str, *, now_ms: int, lease_s: int) -> Sight:
    """What is known after another look. What happened in a long pause is not known."""
    gap_ms = lease_s * 1000 // GAPS_PER_LEASE
    if before is None or version != before.version or now_ms - before.seen_ms > gap_ms:
        return Sight(version, now_ms, now_ms)
    return Sight(version, before.since_ms, now_ms)


def is_silent(sight: Sight, *, lease_s: int) -> bool:
    """Whether it was seen unchanged for a whole lease. Its holder began to count before that."""
    return sight.seen_ms - sight.since_ms >= lease_s * 1000


def watched_by(name: str, names: Iterable[str]) -> list[str]:
    """Whom a node looks after: the ones before it in a ring that no order of names makes."""
    ring = sorted({*names, name}, key=_place)
    at = ring.index(name)
    before = [ring[at - step] for step in range(1, min(WATCHED, len(ring) - 1) + 1)]
    return [each for each in before if each != name]


def left_by(key: NodeKey, lease: HeldLease | None) -> LeftBy:
    """How the node of ``key`` has left by what its lease says now; NOTHING: it has not.

    That a lease is gone says nothing of whether its node still counts on it.
    """
    if lease is None:
        return LeftBy.REMOVAL
    is_over = lease.holder == 0 and lease.term >= key.lease
    return LeftBy.LEASE if is_over else LeftBy.NOTHING


class Neighbours:
    """Looks after some nodes from a thread of its own.

    Args:
        keys: Of the map, with a link of its own.
        leases: Over the same link.
        name: Of this node.
        state: What is known of the cluster by now.
        is_leased: Whether this node's own keep-alives count now. Where they do not, nobody's may,
            and the time of the others begins anew.
    """

    def __init__(
        self,
        keys: KubernetesKeys,
        leases: KubernetesLeases,
        *,
        name: str,
        state: Callable[[], ClusterState],
        is_leased: Callable[[], bool],
    ) -> None:
        self._keys = keys
        self._leases = leases
        self._name = name
        self._state = state
        self._is_leased = is_leased
        self._sights: dict[str, Sight] = {}
        self._is_unwell = False
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gd2fs-neighbours", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Take nobody out any more. The thread ends by itself, soon."""
        self._is_stopping.set()

    def _run(self) -> None:
        while not self._is_stopping.wait(self._pause_ms() / 1000):
            try:
                self._look_around()
                self._is_unwell = False
            except GD2FSError as error:
                if not self._is_unwell:
                    log.warning("%s", error)
                self._is_unwell = True
            except Exception as error:
                log.exception("looking after other nodes failed: %r", error)
                self._sights.clear()

    def _pause_ms(self) -> int:
        """Until the next look: a third of a lease, less where one is about to be over."""
        lease_ms = self._leases.lease_s * 1000
        left_ms = [lease_ms - (each.seen_ms - each.since_ms) for each in self._sights.values()]
        return max(LOOK_MS_MIN, min([lease_ms // BEATS_PER_LEASE, *left_ms]))

    def _look_around(self) -> None:
        nodes = self._state().nodes
        watched = watched_by(self._name, nodes)
        self._sights = {name: each for name, each in self._sights.items() if name in watched}
        for name in watched:
            if name in nodes:
                self._look_at(name, nodes)

    def _look_at(self, name: str, nodes: Mapping[str, NodeKey]) -> None:
        lease = self._leases.read(name)
        if not self._is_leased() or self._is_stopping.is_set():
            self._sights.clear()
            return
        if lease and lease.holder:
            sight = look(
                self._sights.get(name),
                lease.version,
                now_ms=boottime_ms(),
                lease_s=self._leases.lease_s,
            )
            self._sights[name] = sight
            if not is_silent(sight, lease_s=self._leases.lease_s):
                return
            del self._sights[name]
            lease = self._leases.fence(lease)
            if lease is None:
                return  # it spoke just now
            log.warning("`%s` was silent for %s s: it is out", name, self._leases.lease_s)
        how = left_by(nodes[name], lease)
        if how != LeftBy.NOTHING:
            self._keys.remove(name, lease_max=nodes[name].lease, left_by=how)


def _place(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=16).digest()
