"""EtcdFollower: applies what a watch of etcd says."""

from __future__ import annotations

import logging
from typing import Any

from gd2fs.errors import GD2FSError
from gd2fs.membership import rules
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.follower import Follower
from gd2fs.membership.provider import Core
from gd2fs.membership.rules import Beat, Listing, Verdict
from gd2fs.membership.state import ClusterState, LeftBy, caught_up

log = logging.getLogger(__name__)


class EtcdFollower(Follower):
    """See ``Follower``.

    Args:
        keys: With a link of its own.
        core: Told every map.
        state: What was applied before; the core has its map.
        silence_s: A watch that says nothing for so long is opened again.
    """

    def __init__(
        self, keys: EtcdKeys, core: Core, state: ClusterState, *, silence_s: float
    ) -> None:
        super().__init__(core, state)
        self._keys = keys
        self._silence_s = silence_s

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

    def _follow(self) -> None:
        for events in self._keys.watch(self.state.revision + 1, self._silence_s):
            self._take(events)
            if self._is_stopping.is_set() or self.is_lost:
                return

    def _take(self, raw: list[dict[str, Any]]) -> None:
        events = [self._keys.event_of(each, self._left_by) for each in raw]
        with self._changed:
            if not self._is_stopping.is_set() and not self._is_lost:
                self._apply(events)

    def _start_over(self) -> None:
        log.warning("etcd has forgotten what happened meanwhile: all is read anew")
        self.lose()

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
        self._keys.link.forget_token()
        self._keys.link.next_endpoint()
        super()._endure(error)
