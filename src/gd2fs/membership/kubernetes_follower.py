"""KubernetesFollower: applies what versions of the map object say has changed."""

from __future__ import annotations

import logging

from gd2fs.errors import GD2FSError
from gd2fs.membership.follower import Follower
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_map import MapObject
from gd2fs.membership.provider import Core
from gd2fs.membership.state import ClusterState

PAUSE_S = 0.05  # between two watches, should each end at once

log = logging.getLogger(__name__)


class KubernetesFollower(Follower):
    """See ``Follower``. Whoever reads the map may have it taken, not only its own watch.

    Args:
        keys: With a link of its own.
        core: Told every map.
        state: What was applied before; the core has its map.
        uid: Of the object that it was read from.
        silence_s: A watch that says nothing for so long is opened again.
    """

    def __init__(
        self, keys: KubernetesKeys, core: Core, state: ClusterState, *, uid: str, silence_s: float
    ) -> None:
        super().__init__(core, state)
        self._keys = keys
        self._uid = uid
        self._silence_s = silence_s
        self._version = ""

    def take(self, seen: MapObject) -> None:
        """Apply what this version has beyond what is applied; nothing where it is older."""
        with self._changed:
            applied = self._state.epoch
            is_ours = seen.uid == self._uid
            if self._is_stopping.is_set() or not is_ours or seen.epoch <= applied:
                return
            changes = seen.changes_after(applied)
            for event in changes or ():
                self._apply([event])
        if changes is None:
            log.warning("more happened meanwhile than the map remembers: records are dropped")
            self.restart(seen.state())

    def _follow(self) -> None:
        if not self._version:
            seen = self._keys.read()
            self.take(seen)
            self._version = seen.version
        for version, changed in self._keys.watch(self._version, self._silence_s):
            if changed:
                self.take(changed)
            self._version = version or self._version
            if self._is_stopping.is_set():
                return
        self._is_stopping.wait(PAUSE_S)

    def _start_over(self) -> None:
        self._version = ""

    def _endure(self, error: GD2FSError) -> None:
        self._version = ""
        super()._endure(error)
