"""LeasedProvider: what a node does whose place lasts as long as its lease, wherever that is kept.

The store of the membership (etcd, Kubernetes) says in which order maps come and who holds which
lease. What a node makes of it, joining, growing, draining, silence, is the same for all of them.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

from gd2fs.errors import GD2FSError, InvalidRequest, Unavailable
from gd2fs.membership import rules
from gd2fs.membership.boottime import boottime_ms
from gd2fs.membership.follower import Follower
from gd2fs.membership.peers import NODES_MAX
from gd2fs.membership.provider import Core
from gd2fs.membership.replicas import Replicas
from gd2fs.membership.rules import RAMP_PERCENT
from gd2fs.membership.state import (
    NODES,
    SETTINGS,
    WEIGHT_DEFAULT,
    ClusterMap,
    ClusterState,
    LeftBy,
    Member,
    NodeKey,
    NodeState,
    Settings,
    map_of,
)

TURN_S = 0.1  # between two looks at what there is to do
TURN_IN_TROUBLE_S = 0.5
ASK_AGAIN_MS = 1000  # all nodes, what they have yet to move
TIMEOUT_S_MIN, TIMEOUT_S_MAX = 1.0, 3.0  # for the store to answer
JOIN_PATIENCE_S = 30.0  # for the own place to be known, and a keep-alive to count

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Which place a node takes, and how.

    Attributes:
        cluster: The cluster's name.
        name: Of the node.
        addresses: Where others reach it.
        boot: No process of that name ever had it before.
        lease_s: After so long without a keep-alive it is gone. What the first node of a cluster
            says, or the store grants beyond that, holds for all.
        ramp_s: A joining node has its whole weight after this; 0: at once.
        weight: Its share of the chunks, in relation to others.
        replicas: What the first node of a cluster sets; None: one copy.
        away_ms: Since this node left; None: it has not been here.
    """

    cluster: str
    name: str
    addresses: tuple[str, ...]
    boot: int
    lease_s: int = 5
    ramp_s: float = 10.0
    weight: int = WEIGHT_DEFAULT
    replicas: Replicas | None = None
    away_ms: int | None = None


class LeasedProvider(ABC):
    """This node's membership by a lease. See ``Provider``.

    One thread follows what happens, another keeps the lease and does what is due; requests of both
    have deadlines. Without the store the node goes on until its lease ends, then without records.

    Args:
        place: Which place it takes, and how.
        is_ended: Set from outside to end a wait for the name.
    """

    kind: str
    store: str  # how messages call it

    def __init__(self, place: Place, is_ended: threading.Event | None = None) -> None:
        self.name = place.name
        self.is_over = threading.Event()
        self.fault = ""
        self._place = place
        self._me = Member(place.name, place.addresses, place.weight, place.boot, NodeState.JOINING)
        self._moves_left: Callable[[], int | None] = lambda: None
        self._cluster = place.cluster
        self._timeout_s = min(max(place.lease_s / 4, TIMEOUT_S_MIN), TIMEOUT_S_MAX)
        self._away_ms = place.away_ms
        self._first: ClusterState | None = None
        self._core: Core | None = None
        self._follower: Follower | None = None
        self._lease_s = place.lease_s
        self._until_ms = 0
        self._step = len(RAMP_PERCENT) - 1
        self._step_since_ms = 0
        self._asked_ms = 0
        self._is_draining = False
        self._trouble = ""
        self._is_stopping = threading.Event()
        self._is_ended = is_ended or threading.Event()
        self._thread = threading.Thread(target=self._run, name="gd2fs-lease", daemon=True)

    # ---- what the store has to say -------------------------------------------------------------

    @abstractmethod
    def _where(self) -> str:
        """The store, and where it is, for messages."""

    @abstractmethod
    def _place_of_settings(self) -> str:
        """Where in the store they are, for messages."""

    @abstractmethod
    def _snapshot(self) -> ClusterState:
        """All that is known of the cluster now."""

    @abstractmethod
    def _found(self) -> None:
        """Make the settings of a new cluster, unless another node just does."""

    @abstractmethod
    def _wait_for_name(self, state: ClusterState) -> ClusterState:
        """Wait while the name is held by a lease that may end; the state in which it is free."""

    @abstractmethod
    def _follow_from(self, core: Core, first: ClusterState) -> Follower:
        """A follower that has yet to be started."""

    @abstractmethod
    def _enter(self) -> int:
        """Take a lease, and put the own place; its revision, 0 when another one has it."""

    @abstractmethod
    def _beat(self) -> bool:
        """One keep-alive, and what it says; whether it counts."""

    @abstractmethod
    def _put_member(self, member: Member, expected_revision: int) -> int:
        """Put this node's key under its lease, if it was last put with ``expected_revision``
        (0: is absent); the revision of that, or 0 when it was another."""

    @abstractmethod
    def _give_back(self) -> None:
        """End the lease, and the own place with it, as far as the store can be reached."""

    # ---- the node's side -----------------------------------------------------------------------

    def first_map(self) -> ClusterMap:
        """See ``Provider.first_map``. Waits while the name is held by a lease that may end."""
        state = self._snapshot()
        if state.settings is None:
            if SETTINGS in state.revisions:
                raise InvalidRequest(
                    f"the settings of cluster {self._cluster} in {self.store} are broken",
                    hint=f"look at what {self.store} has under {self._place_of_settings()}",
                )
            self._found()
            state = self._snapshot()
        settings = state.settings
        assert settings is not None
        self._lease_s = settings.lease_s
        self._compare(settings)
        state = self._wait_for_name(state)
        if len(state.nodes) >= NODES_MAX:
            raise InvalidRequest(
                f"cluster {self._cluster} has {NODES_MAX} nodes", hint="make a second cluster"
            )
        self._first = state
        cluster = map_of(state)
        # in no other node's map, and no owner in this one: there is nothing to say for it yet
        me = replace(self._me, state=NodeState.GONE, left_by=LeftBy.LEASE)
        return replace(cluster, epoch=max(cluster.epoch, 1), members=(*cluster.members, me))

    def join(self, core: Core, moves_left: Callable[[], int | None] = lambda: None) -> None:
        """See ``Provider.join``."""
        assert self._first is not None, "first_map comes before"
        first = self._first
        self._moves_left = moves_left
        self._core = core
        self._follower = self._follow_from(core, first)
        self._step = rules.first_step(
            first, self.name, away_ms=self._away_ms, ramp_ms=self._ramp_ms
        )
        revision = self._enter()
        if revision == 0:
            raise self._twin(self._snapshot())
        self._follower.start()
        self._follower.wait(lambda state: state.revision >= revision, JOIN_PATIENCE_S)
        end_ms = boottime_ms() + int(JOIN_PATIENCE_S * 1000)
        while not self._beat() and boottime_ms() < end_ms and not self.is_over.is_set():
            self._is_stopping.wait(TURN_S)
        if self._until_ms == 0:
            raise Unavailable(
                self.fault or f"{self._where()} does not say that {self.name} joined",
                hint=f"look at the log of {self.store}",
            )
        self._thread.start()

    def leave(self) -> None:
        """See ``Provider.leave``. What the store does not hear ends with the lease."""
        if self._is_stopping.is_set():
            return
        self._is_stopping.set()
        if self._core is not None:
            self._core.set_lease(0)  # first: from here on nothing is answered for records
            self._until_ms = 0
        if self._follower:
            self._follower.stop()
        if self._thread.is_alive():
            self._thread.join(3 * self._timeout_s)
        if not self._thread.is_alive():
            self._leave_store()

    def why_not_ready(self) -> str:
        """See ``Provider.why_not_ready``."""
        if self.fault:
            return self.fault
        if self._follower is None or self._until_ms == 0:
            return "the node has not joined yet"
        if boottime_ms() >= self._until_ms:
            why = self._trouble or f"{self.store} was not asked in time"
            return f"fenced: no keep-alive counts; {why}"
        if self.state() == NodeState.DRAINING:
            return "the node is draining"
        return "" if self.state() != NodeState.GONE else "the node is not in the map"

    def nodes(self) -> int:
        """See ``Provider.nodes``."""
        return len(self._follower.state.nodes) if self._follower else 0

    def state(self) -> NodeState:
        """See ``Provider.state``."""
        own = self._own() if self._follower else None
        return own.member.state if own else NodeState.GONE

    def lease_left_s(self) -> float | None:
        """See ``Provider.lease_left_s``."""
        return max(0, self._until_ms - boottime_ms()) / 1000

    # ---- before joining ------------------------------------------------------------------------

    @property
    def _ramp_ms(self) -> int:
        return int(self._place.ramp_s * 1000)

    def _compare(self, settings: Settings) -> None:
        wanted = self._place.replicas
        if wanted is not None and wanted != settings.replicas:
            log.warning(
                "cluster %s keeps replicas %s, not %s: change it with `gd2fs cluster replicas`",
                self._cluster,
                settings.replicas,
                wanted,
            )

    def _wait_turn(self, waited_ms: int) -> None:
        """One turn of a wait for the name. Raises Unavailable when the node is to end."""
        if waited_ms < TURN_S * 1000:
            log.info("`%s` is held by a lease: waiting for its end", self.name)
            self._away_ms = 0
        if self._is_ended.wait(TURN_S):
            raise Unavailable("the node was ended while it waited", hint="start it again")

    def _twin(self, state: ClusterState) -> InvalidRequest:
        held = state.nodes.get(self.name)
        where = f" at {'+'.join(held.member.addresses)}" if held else ""
        return InvalidRequest(
            f"another process of cluster {self._cluster} is node `{self.name}`{where}",
            hint="give this one another `--name`, or end that one",
        )

    # ---- the thread that keeps the lease -------------------------------------------------------

    def _run(self) -> None:
        next_ms = boottime_ms() + self._beat_ms
        while not self._is_stopping.wait(self._turn_s) and not self.is_over.is_set():
            try:
                if boottime_ms() >= next_ms and self._beat():
                    next_ms = boottime_ms() + self._beat_ms  # else the next turn tries again
                self._take_step()
                self._follow_wish()
                self._put_what_is_wanted()
            except GD2FSError as error:
                self._endure(error)
            except Exception as error:
                log.exception("keeping the lease failed: %r", error)
                self._is_stopping.wait(TURN_S)

    @property
    def _turn_s(self) -> float:
        """Longer where the store has trouble: all nodes ask again, and it has to get up."""
        return min(self._beat_ms / 4000, TURN_IN_TROUBLE_S) if self._trouble else TURN_S

    @property
    def _beat_ms(self) -> int:
        return self._lease_s * 1000 // rules.BEATS_PER_LEASE

    def _count(self, sent_ms: int, granted_s: int) -> None:
        """A keep-alive that was sent at ``sent_ms`` counts."""
        until_ms = rules.lease_end_ms(sent_ms=sent_ms, granted_s=granted_s, lease_s=self._lease_s)
        if not self._is_stopping.is_set():
            self._until_ms = until_ms
            self._must_core().set_lease(until_ms)
        if self._trouble:
            log.info("%s answers again", self.store)
            self._trouble = ""

    def _is_replaced(self, state: ClusterState) -> bool:
        """Whether another process has the name; then this one has no place any more."""
        held = state.nodes.get(self.name)
        if held is None or held.member.boot == self._me.boot:
            return False
        self._give_up(str(self._twin(state)))
        return True

    # ---- the own place in the map --------------------------------------------------------------

    def _wanted(self) -> Member:
        state = NodeState.DRAINING if self._is_draining else rules.state_at(self._step)
        weight = rules.weight_of(self._place.weight, self._step)
        return replace(self._me, weight=weight, state=state)

    def _put_own(self, *, expected_revision: int) -> int:
        """Write this node's key as it should be now; the revision, or 0 when it was another's."""
        self._step_since_ms = boottime_ms()
        self._asked_ms = 0
        return self._put_member(self._wanted(), expected_revision)

    def _put_what_is_wanted(self) -> None:
        follower = self._must_follow()
        own = self._own()
        if follower.is_lost or (own and own.member == self._wanted()):
            return
        if own is None:
            self._beat()  # the lease may be lost too
            if self.is_over.is_set() or follower.is_lost or self._own():
                return
            log.warning("somebody took `%s` out of %s: it joins again", self.name, self.store)
        revision = self._put_own(
            expected_revision=follower.state.revisions.get(NODES + self.name, 0)
        )
        if revision:
            follower.wait(lambda now: now.revision >= revision, self._timeout_s)

    def _take_step(self) -> None:
        own = self._own()
        if own is None or self._is_draining or own.member != self._wanted():
            return
        now_ms = boottime_ms()
        lasted_ms = now_ms - self._step_since_ms
        is_early = lasted_ms < self._ramp_ms // (len(RAMP_PERCENT) - 1)
        if is_early or now_ms - self._asked_ms < ASK_AGAIN_MS:
            return
        moves_left = self._moves_left()
        self._asked_ms = boottime_ms()
        if rules.is_step_due(
            step=self._step, lasted_ms=lasted_ms, ramp_ms=self._ramp_ms, moves_left=moves_left
        ):
            self._step += 1

    def _follow_wish(self) -> None:
        core, state = self._must_core(), self._must_follow().state
        if not self._is_draining:
            self._is_draining = core.is_draining_wished() and rules.may_drain(state, self.name)
            if self._is_draining:
                log.info("`%s` hands over what it has, then it leaves", self.name)
            return
        own = self._own()
        if own is None or own.member.state != NodeState.DRAINING:
            return
        epoch = state.revisions.get(NODES + self.name, 0)
        if rules.is_handed_over(core.counts(), draining_epoch=epoch):
            core.set_lease(0)
            self._until_ms = 0
            self._leave_store()
            self.is_over.set()

    def _own(self) -> NodeKey | None:
        """This node as the newest map has it."""
        key = self._must_follow().state.nodes.get(self.name)
        return key if key and key.member.boot == self._me.boot else None

    def _leave_store(self) -> None:
        if self._core is not None:
            self._core.set_lease(0)  # again: a keep-alive may have come in between
        try:
            self._give_back()
        except GD2FSError as error:
            log.warning("the lease was not given back, it ends by itself: %s", error)

    def _give_up(self, why: str) -> None:
        self._must_core().set_lease(0)
        self._until_ms = 0
        self.fault = why
        log.error("%s", why)
        self.is_over.set()

    def _endure(self, error: GD2FSError) -> None:
        if not self._trouble:
            log.warning("%s", error)
        self._trouble = str(error)

    def _must_core(self) -> Core:
        assert self._core is not None, "join comes before"
        return self._core

    def _must_follow(self) -> Follower:
        assert self._follower is not None, "join comes before"
        return self._follower
