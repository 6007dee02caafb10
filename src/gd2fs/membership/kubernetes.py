"""KubernetesProvider: membership from the API of Kubernetes. A ConfigMap is the map, a Lease says
of each node that it is there.

A keep-alive is a write of the node's own Lease. It counts once the map was read after it, all its
changes are applied, and the node stands in it under this very lease.
"""

from __future__ import annotations

import logging
import threading
import time

from gd2fs.errors import Unavailable
from gd2fs.membership import rules
from gd2fs.membership.boottime import boottime_ms
from gd2fs.membership.kubernetes_follower import KubernetesFollower
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_leases import HeldLease, KubernetesLeases
from gd2fs.membership.kubernetes_link import KubernetesLink, KubernetesSettings
from gd2fs.membership.kubernetes_neighbours import Neighbours, Sight, is_silent, left_by, look
from gd2fs.membership.leased import JOIN_PATIENCE_S, TURN_S, LeasedProvider, Place
from gd2fs.membership.provider import Core
from gd2fs.membership.replicas import Replicas
from gd2fs.membership.rules import RAMP_PERCENT
from gd2fs.membership.state import NODES, ClusterState, LeftBy, Member, NodeKey, Settings

HISTORY_LOST = (
    "the map of this cluster in Kubernetes was removed, or is an old one: start this node again"
)
START_TIMEOUT_S = 10.0  # to answer a node that has no lease to keep yet
SIGNS_OF_LIFE = 2  # changes of a lease, after which its holder lives

log = logging.getLogger(__name__)


class KubernetesProvider(LeasedProvider):
    """This node's membership in Kubernetes. See ``LeasedProvider`` and ``Provider``.

    ``settings``: where the API is, and the objects.
    """

    kind = "kubernetes"
    store = "Kubernetes"

    def __init__(
        self, settings: KubernetesSettings, place: Place, is_ended: threading.Event | None = None
    ) -> None:
        super().__init__(place, is_ended)
        self._settings = settings
        self._keys = KubernetesKeys(KubernetesLink(settings, START_TIMEOUT_S), place.cluster)
        self._leases = KubernetesLeases(self._keys.link, place.cluster, self._lease_s)
        self._uid = ""
        self._held: HeldLease | None = None
        self._versions: KubernetesFollower | None = None
        self._neighbours: Neighbours | None = None

    def _link(self) -> KubernetesLink:
        return KubernetesLink(self._settings, self._timeout_s)

    # ---- before joining ------------------------------------------------------------------------

    def _where(self) -> str:
        return f"Kubernetes at {self._settings.api}"

    def _place_of_settings(self) -> str:
        return f"`settings` of ConfigMap {self._keys.name}"

    def _snapshot(self) -> ClusterState:
        seen = self._keys.read()
        self._uid = self._uid or seen.uid
        return seen.state()

    def _found(self) -> None:
        settings = Settings(self._place.replicas or Replicas(), self._place.lease_s)
        self._keys.put_settings(settings, expected_revision=0)

    def _wait_for_name(self, state: ClusterState) -> ClusterState:
        self._leases.lease_s = self._lease_s
        lease = self._wait_for_lease(state)
        held = self._snapshot().nodes.get(self.name)
        if held is not None:
            how = left_by(held, lease)
            how = LeftBy.REMOVAL if how == LeftBy.NOTHING else how
            self._keys.remove(self.name, lease_max=held.lease, left_by=how)
        return self._snapshot()

    def _wait_for_lease(self, state: ClusterState) -> HeldLease | None:
        """This node's, once nobody holds it; None when there is no such object."""
        start_ms = boottime_ms()
        sight: Sight | None = None
        signs = 0
        while True:
            lease = self._leases.read(self.name)
            if lease is None or lease.holder in (0, self._me.boot):
                return lease
            before = sight
            sight = look(before, lease.version, now_ms=boottime_ms(), lease_s=self._lease_s)
            signs += before is not None and before.version != sight.version
            if signs >= SIGNS_OF_LIFE:
                raise self._twin(state)
            if is_silent(sight, lease_s=self._lease_s):
                self._leases.fence(lease)
                continue
            self._wait_turn(boottime_ms() - start_ms)

    def _follow_from(self, core: Core, first: ClusterState) -> KubernetesFollower:
        keys = KubernetesKeys(self._link(), self._cluster)
        silence_s = max(10.0, 3.0 * self._lease_s)  # every keep-alive reads the map too
        self._versions = KubernetesFollower(keys, core, first, uid=self._uid, silence_s=silence_s)
        beside = self._link()
        self._neighbours = Neighbours(
            KubernetesKeys(beside, self._cluster),
            KubernetesLeases(beside, self._cluster, self._lease_s),
            name=self.name,
            state=lambda: self._must_follow().state,
            is_leased=lambda: boottime_ms() < self._until_ms,
        )
        return self._versions

    def _enter(self) -> int:
        end_s = time.monotonic() + JOIN_PATIENCE_S
        while True:
            try:
                lease = self._leases.read(self.name)
                if lease and lease.holder not in (0, self._me.boot):
                    return 0
                state = self._snapshot()
                expected = state.revisions.get(NODES + self.name, 0)
                if self._take(lease, state) and (
                    revision := self._put_own(expected_revision=expected)
                ):
                    self._keys.link.timeout_s = self._timeout_s
                    self._must_neighbours().start()
                    return revision
            except Unavailable:
                if time.monotonic() > end_s or self._is_ended.is_set():
                    raise
            time.sleep(TURN_S)

    def leave(self) -> None:
        """See ``Provider.leave``."""
        if self._neighbours:
            self._neighbours.stop()
        super().leave()

    # ---- the lease -----------------------------------------------------------------------------

    @property
    def _term(self) -> int:
        return self._held.term if self._held else 0

    def _own(self) -> NodeKey | None:
        """Under the lease that it has now; under an older one it counts as gone."""
        key = super()._own()
        return key if key and key.lease == self._term else None

    def _beat(self) -> bool:
        sent_ms = boottime_ms()
        if not self._renew():
            self._rejoin()
            return False
        versions = self._must_versions()
        asked_epoch = versions.state.epoch
        head = self._keys.head()
        if head is None or head.uid != self._uid or head.epoch < asked_epoch:
            self._give_up(HISTORY_LOST)
            return False
        if head.epoch > versions.state.epoch:
            versions.take(self._keys.read())
        state = versions.state
        if state.epoch < head.epoch or self._is_replaced(state) or self._own() is None:
            return False
        self._count(sent_ms, self._lease_s)
        return True

    def _renew(self) -> bool:
        """Whether the lease is this node's still."""
        if self._held is None:
            return False
        renewed = self._leases.renew(self._held)
        if renewed is None and (seen := self._still_held(self._held)):
            renewed = self._leases.renew(seen)
        if renewed is not None:
            self._held = renewed
        return renewed is not None

    def _still_held(self, held: HeldLease) -> HeldLease | None:
        """The lease as it is now, where that is what a write made of it whose answer was lost."""
        seen = self._leases.read(self.name)
        return seen if seen and (seen.holder, seen.term) == (held.holder, held.term) else None

    def _rejoin(self) -> None:
        """The lease is lost: be silent, then take another one, with the same boot."""
        log.warning("the lease of `%s` was lost: it joins again", self.name)
        now_ms = boottime_ms()
        self._must_core().set_lease(0)
        self._until_ms = min(self._until_ms, now_ms)
        state = self._snapshot()
        lease = self._leases.read(self.name)
        if lease and lease.holder not in (0, self._me.boot):
            self._give_up(str(self._twin(state)))
        if self.is_over.is_set() or self._is_replaced(state) or self._is_stopping.is_set():
            return
        if self._step == len(RAMP_PERCENT) - 1:
            self._step = rules.first_step(
                state, self.name, away_ms=now_ms - self._until_ms, ramp_ms=self._ramp_ms
            )
        if self._take(lease, state):
            self._put_own(expected_revision=state.revisions.get(NODES + self.name, 0))

    def _take(self, lease: HeldLease | None, state: ClusterState) -> bool:
        """Hold the lease under a new term; False when somebody was quicker."""
        listed = state.nodes.get(self.name)
        terms = (self._term, lease.term if lease else 0, listed.lease if listed else 0)
        taken = self._leases.take(self.name, self._me.boot, seen=lease, term=max(terms) + 1)
        self._held = taken or self._held
        return taken is not None

    def _put_member(self, member: Member, expected_revision: int) -> int:
        return self._keys.put_member(member, self._term, expected_revision=expected_revision)

    def _give_back(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        fenced = self._leases.fence(held)
        if fenced is None and (seen := self._still_held(held)):
            fenced = self._leases.fence(seen)
        if fenced:
            self._keys.remove(self.name, lease_max=held.term, left_by=LeftBy.LEASE)
            self._leases.remove(fenced)

    def _must_versions(self) -> KubernetesFollower:
        assert self._versions is not None, "join comes before"
        return self._versions

    def _must_neighbours(self) -> Neighbours:
        assert self._neighbours is not None, "join comes before"
        return self._neighbours
