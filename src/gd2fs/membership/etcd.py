"""EtcdProvider: membership from etcd. The revision is the epoch, a lease says who is there."""

from __future__ import annotations

import logging
import threading

from gd2fs.membership import rules
from gd2fs.membership.boottime import boottime_ms
from gd2fs.membership.etcd_follower import EtcdFollower
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings
from gd2fs.membership.leased import LeasedProvider, Place
from gd2fs.membership.provider import Core
from gd2fs.membership.replicas import Replicas
from gd2fs.membership.rules import RAMP_PERCENT, Join, Verdict
from gd2fs.membership.state import NODES, SETTINGS, ClusterState, Member, Settings

HISTORY_LOST = "etcd has lost its history: start this node again"

log = logging.getLogger(__name__)


class EtcdProvider(LeasedProvider):
    """This node's membership in etcd. See ``LeasedProvider`` and ``Provider``.

    ``settings``: where etcd is.
    """

    kind = "etcd"
    store = "etcd"

    def __init__(
        self, settings: EtcdSettings, place: Place, is_ended: threading.Event | None = None
    ) -> None:
        super().__init__(place, is_ended)
        self._keys = EtcdKeys(EtcdLink(settings, self._timeout_s), place.cluster)
        self._watching = EtcdKeys(EtcdLink(settings, self._timeout_s), place.cluster)
        self._events: EtcdFollower | None = None
        self._lease = 0
        self._behind_since_ms: int | None = None

    # ---- before joining ------------------------------------------------------------------------

    def _where(self) -> str:
        return f"etcd at {self._keys.link.endpoint}"

    def _place_of_settings(self) -> str:
        return f"the key `{self._keys.prefix}{SETTINGS}`"

    def _snapshot(self) -> ClusterState:
        return self._keys.snapshot()

    def _found(self) -> None:
        lease, granted_s = self._keys.grant(self._place.lease_s)
        self._keys.revoke(lease)
        settings = Settings(self._place.replicas or Replicas(), granted_s)
        self._keys.put_settings(settings, expected_revision=0)

    def _wait_for_name(self, state: ClusterState) -> ClusterState:
        if self._keys.may_end_early():
            log.warning(
                "this etcd may end a lease before its time, so a lost node costs another lease: "
                "take etcd 3.4.31, 3.5.13 or newer"
            )
        start_ms = boottime_ms()
        lease_s = self._lease_s
        while True:
            waited_ms = boottime_ms() - start_ms
            held = state.nodes.get(self.name)
            choice = rules.join_of(held, boot=self._me.boot, waited_ms=waited_ms, lease_s=lease_s)
            if choice == Join.GO:
                return state
            if choice == Join.REFUSE:
                raise self._twin(state)
            self._wait_turn(waited_ms)
            state = self._keys.snapshot()

    def _follow_from(self, core: Core, first: ClusterState) -> EtcdFollower:
        silence_s = max(1.0, self._lease_s / 2)
        self._events = EtcdFollower(self._watching, core, first, silence_s=silence_s)
        return self._events

    def _enter(self) -> int:
        self._lease, _ = self._keys.grant(self._lease_s)
        return self._put_own(expected_revision=0)

    # ---- the lease -----------------------------------------------------------------------------

    def _beat(self) -> bool:
        sent_ms = boottime_ms()
        beat = self._keys.keep_alive(self._lease)
        if beat.ttl_s <= 0:
            self._rejoin()
            return False
        assert self._events is not None, "join comes before"
        listing = self._keys.listing(self._events.state.revision)
        if self._events.is_lost:
            self._read_anew()
            return False
        verdict = self._events.judge(beat, listing, self._timeout_s)
        if verdict == Verdict.COUNTS:
            self._behind_since_ms = None
            if not self._is_replaced(self._events.state):
                self._count(sent_ms, beat.ttl_s)
        elif verdict == Verdict.IS_REWOUND:
            self._give_up(HISTORY_LOST)
        elif verdict == Verdict.IS_BEHIND:
            self._fall_behind(sent_ms)
        return verdict == Verdict.COUNTS

    def _fall_behind(self, now_ms: int) -> None:
        if self._behind_since_ms is None:
            self._behind_since_ms = now_ms
        elif now_ms - self._behind_since_ms > self._lease_s * 1000:
            log.warning("events of etcd are missing: all is read anew")
            self._must_follow().lose()
            self._behind_since_ms = None

    def _rejoin(self) -> None:
        """The lease is lost: take another one, with the same boot."""
        log.warning("the lease of `%s` was lost: it joins again", self.name)
        away_ms = boottime_ms() - self._until_ms
        state = self._keys.snapshot()
        if self._is_replaced(state) or self._is_stopping.is_set():
            return
        if self._step == len(RAMP_PERCENT) - 1:
            self._step = rules.first_step(state, self.name, away_ms=away_ms, ramp_ms=self._ramp_ms)
        self._lease, _ = self._keys.grant(self._lease_s)
        self._put_own(expected_revision=state.revisions.get(NODES + self.name, 0))

    def _read_anew(self) -> None:
        """Make an epoch of one's own, and go on from there: nothing before it is known."""
        state = self._keys.snapshot()
        if self._is_replaced(state):
            return
        revision = self._put_own(expected_revision=state.revisions.get(NODES + self.name, 0))
        if revision and not self._must_follow().restart(self._keys.snapshot(revision)):
            self._give_up(HISTORY_LOST)

    def _put_member(self, member: Member, expected_revision: int) -> int:
        return self._keys.put_member(member, self._lease, expected_revision=expected_revision)

    def _give_back(self) -> None:
        lease, self._lease = self._lease, 0
        if lease:
            self._keys.revoke(lease)
