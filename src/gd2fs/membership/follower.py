"""Follower: has every event of the cluster applied, in order, from a thread of its own."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from gd2fs.errors import GD2FSError
from gd2fs.membership.provider import Core, tell
from gd2fs.membership.state import ClusterState, Event, LeftBy, NodeState, advance, map_of

AGAIN_S = 0.2  # after the store of the membership did not answer

log = logging.getLogger(__name__)


class Compacted(Exception):
    """The events that were asked for are forgotten."""


class Follower(ABC):
    """Where the state of one cluster is kept up to date, and the core with it.

    Args:
        core: Told every map.
        state: What was applied before; the core has its map.
    """

    def __init__(self, core: Core, state: ClusterState) -> None:
        self._core = core
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
        """Go on from ``state``, read anew; False when that is not newer, which it cannot be."""
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

    def _apply(self, events: Sequence[Event]) -> None:
        """All events of one revision. Called with the lock held."""
        state = advance(self._state, events)
        if state.epoch != self._state.epoch:
            tell(self._core, map_of(state))
        self._state = state
        self._changed.notify_all()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            if self.is_lost:
                self._is_stopping.wait(AGAIN_S)
                continue
            try:
                self._follow()
                self._is_unwell = False
            except Compacted:
                self._start_over()
            except GD2FSError as error:
                self._endure(error)
            except Exception as error:
                log.exception("what is said of the cluster is not understood: %r", error)
                self._start_over()
                self._is_stopping.wait(AGAIN_S)

    @abstractmethod
    def _follow(self) -> None:
        """Apply what happens, until a watch ends or the follower is stopped or lost."""

    @abstractmethod
    def _start_over(self) -> None:
        """What happened meanwhile cannot be known event by event."""

    def _endure(self, error: GD2FSError) -> None:
        if not self._is_unwell:
            log.warning("%s", error)
        self._is_unwell = True
        self._is_stopping.wait(AGAIN_S)
