"""Requests: what the simulator is asked, made of the batches of one node.

Whoever keeps KV caches asks first which blocks are there, gets these, computes the others and puts
them. So blocks that are asked for begin a request; what is got or put of them later belongs to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gd2fs.key_trace.entries import EXISTS, HIT, OFFER, Batch, Key

OPEN_MAX = 1 << 20  # keys whose use or put is waited for; the oldest are forgotten
PROBED, MISSED = 0, 1  # how a key was asked for last


@dataclass(frozen=True, slots=True)
class Request:
    """Part of a prompt: what one node keeps of it.

    Attributes:
        when_us: On the node's steady clock.
        asked: Numbers of the blocks that were asked for, in their order.
        found: How many of them the node had.
        stored: Of blocks that were put though nobody had asked for them: an answer's.
    """

    when_us: int
    asked: Sequence[int]
    found: int
    stored: Sequence[int]


class Requests:
    """Of one node, whose batches come in their order."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}

    def of(self, batch: Batch) -> Request | None:
        """The request that this batch begins; None: it goes on with others."""
        if batch.op == OFFER:
            stored = [key.number for key in batch.keys if self._close(key) is None]
            return Request(batch.when_us, (), 0, stored) if stored else None
        asked = batch.keys if batch.op == EXISTS else self._asked_by_get(batch.keys)
        for key in asked:
            if batch.op == EXISTS or key.outcome != HIT:
                self._await(key, PROBED if batch.op == EXISTS else MISSED)
        if not asked:
            return None
        found = sum(key.outcome == HIT for key in asked)
        return Request(batch.when_us, [key.number for key in asked], found, ())

    def _asked_by_get(self, keys: Sequence[Key]) -> list[Key]:
        """Those that nobody had asked for before, or that were missing then."""
        asked = []
        for key in keys:
            if self._close(key) != PROBED:
                asked.append(key)
            elif key.outcome != HIT:
                self._await(key, MISSED)  # it has gone meanwhile
        return asked

    def _close(self, key: Key) -> int | None:
        return self._open.pop(key.number, None)

    def _await(self, key: Key, how: int) -> None:
        self._open.pop(key.number, None)
        self._open[key.number] = how
        if len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]
