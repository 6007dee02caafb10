"""EtcdFollower: applies every event of the cluster, in order, from a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gd2fs.errors import GD2FSError
from gd2fs.membership import rules
from gd2fs.membership.etcd_keys import Compacted, EtcdKeys
from gd2fs.membership.provider import Core, tell
from gd2fs.membership.rules import Beat, Listing, Verdict
from gd2fs.membership.state import (
    ClusterState,
    LeftBy,
    NodeState,
    advance,
    caught_up,
    map_of,
)

AGAIN_S = 0.2  # after etcd did not answer

log = logging.getLogger(__name__)


class EtcdFollower:
    """Where the state of one cluster is kept up to date, and the core with it.

    Args:
        keys: With a link of its own.
        core: Told every map.
        state: What was applied before; the core has its map.
        silence_s: A watch that says nothing for so long is opened again.
    """

    def __init__(
        self, keys: EtcdKeys, core: Core, state: ClusterState, *, silence_s: float
    ) -> None:
        self._keys = keys
        self._core = core
        self._silence_s = silence_s
        self._is_stopping = threading.Event()
        self._changed = threading.Condition()  # Guards: _state, _is_lost. Held while a map is told.
        self._state = state
        self._is_lost = False
        self._is_unwell = False
        self._thread = threading.Thread(target=self._run, name="gd2fs-watch", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """From now on the core is told nothing. The thread ends by itself, soon."""
        with self._changed:
            self._is_stopping.set()
            self._changed.notify_all()

    @property
    def state(self) -> ClusterState:
        """What is applied by now."""
        with self._changed:
            return self._state

    @property
    def is_lost(self) -> bool:
        """Events were missed; ``restart`` says from where to go on."""
        with self._changed:
            return self._is_lost

    def lose(self) -> None:
        """Take it that events were missed."""
        with self._changed:
            self._is_lost = True

    def restart(self, state: ClusterState) -> bool:
        """Go on from ``state``, read anew; False when that is not newer, which etcd cannot be."""
        with self._changed:
            if state.epoch <= self._state.epoch:
                return False
            missing = [key for name, key in self._state.nodes.items() if name not in state.nodes]
            left = [
                replace(key.member, state=NodeState.GONE, left_by=LeftBy.REMOVAL)
                for key in missing  # how they left is not known
            ]
            self._state = replace(state, left=tuple(left))
            tell(self._core, map_of(self._state), is_gap=True)
            self._is_lost = False
            self._changed.notify_all()
            return True

    def wait(self, is_so: Callable[[ClusterState], bool], timeout_s: float) -> bool:
        """Wait until the state is so; False when it did not become so in time."""
        with self._changed:
            self._changed.wait_for(
                lambda: is_so(self._state) or self._is_lost or self._is_stopping.is_set(), timeout_s
            )
            return is_so(self._state)

    def judge(self, beat: Beat, listing: Listing, timeout_s: float) -> Verdict:
        """What a keep-alive is worth, once all maps up to it are applied or time is over."""

        def is_clear(state: ClusterState) -> bool:
            return rules.verdict_of(beat, listing, state) != Verdict.IS_BEHIND

        self.wait(is_clear, timeout_s)
        with self._changed:
            verdict = rules.verdict_of(beat, listing, self._state)
            if verdict == Verdict.COUNTS:
                self._state = caught_up(self._state, listing.revision)
            return verdict

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            if self.is_lost:
                self._is_stopping.wait(AGAIN_S)
                continue
            try:
                self._follow()
                self._is_unwell = False
            except Compacted:
                log.warning("etcd has forgotten what happened meanwhile: all is read anew")
                self.lose()
            except GD2FSError as error:
                self._endure(error)
            except Exception as error:
                log.exception("what etcd says is not understood, all is read anew: %r", error)
                self.lose()
                self._is_stopping.wait(AGAIN_S)

    def _follow(self) -> None:
        for events in self._keys.watch(self.state.revision + 1, self._silence_s):
            self._apply(events)
            if self._is_stopping.is_set() or self.is_lost:
                return

    def _apply(self, raw: list[dict[str, Any]]) -> None:
        events = [self._keys.event_of(each, self._left_by) for each in raw]
        with self._changed:
            if self._is_stopping.is_set() or self._is_lost:
                return
            state = advance(self._state, events)
            if state.epoch != self._state.epoch:
                tell(self._core, map_of(state))
            self._state = state
            self._changed.notify_all()

    def _left_by(self, name: str) -> LeftBy:
        """Asks until etcd answers: without knowing, the map cannot be told."""
        key = self.state.nodes.get(name)
        while key is not None and not self._is_stopping.is_set():
            try:
                ttl_s = self._keys.lease_ttl_s(key.lease) if key.lease else 1
                is_early = ttl_s == 0 and self._keys.may_end_early()
                return rules.left_by(ttl_s, is_early=is_early)
            except GD2FSError as error:
                self._endure(error)
        return LeftBy.REMOVAL

    def _endure(self, error: GD2FSError) -> None:
        if not self._is_unwell:
            log.warning("%s", error)
        self._is_unwell = True
        self._keys.link.forget_token()
        self._keys.link.next_endpoint()
        self._is_stopping.wait(AGAIN_S)


def boottime_ms() -> int:
    """Milliseconds since the machine started, sleep included: the clock of leases."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
