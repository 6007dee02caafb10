"""Lookups: what the store was asked about, and what it answered, for the scheduler's thread.

The engine asks for one key after the other and must not wait. Keys are gathered over a step and
asked for together; until the answer is there the engine is told to come again, and once a key's
deadline is over, that it is a miss. One thread only: answers are handed over by their owner.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

GRANTS_MAX = 8  # how often a request is told that a key is there: the pool may evict what it loaded
MISS_S = 1.0  # for so long a miss holds for requests that are new to the key, too


class Answer(Enum):
    """What a lookup came to."""

    HIT = "hit"
    LATER = "later"  # not answered yet: ask again
    LATE = "late"  # not answered in time
    ABSENT = "absent"  # the store does not have it
    FAILED = "failed"  # it was there and could not be loaded
    AWAY = "away"  # the store does not answer
    APART = "apart"  # nothing may be shared, for now or for good


@dataclass(slots=True)
class _Asked:
    end: float
    requests: set[str] = field(default_factory=set)
    answer: Answer | None = None
    miss_until: float = 0.0


@dataclass(slots=True)
class _Request:
    keys: set[bytes] = field(default_factory=set)
    told: set[bytes] = field(default_factory=set)
    granted: dict[bytes, int] = field(default_factory=dict)


class Lookups:
    """Keys that requests asked for and still hold.

    Args:
        timeout_s: From the first question for a key on; then it is a miss until it is answered.
    """

    def __init__(self, *, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = timeout_s
        self._clock = clock
        self._keys: dict[bytes, _Asked] = {}
        self._requests: dict[str, _Request] = {}
        self._unsent: list[bytes] = []

    def look(self, key: bytes, request: str) -> Answer:
        """What is known of ``key``; an unknown one is asked for with the next batch."""
        now = self._clock()
        asked = self._keys.get(key)
        if asked is None:
            asked = self._keys[key] = _Asked(now + self._timeout_s)
            self._unsent.append(key)
        elif request not in asked.requests and asked.answer not in (None, Answer.HIT):
            self._ask_again(key, asked, now)
        asked.requests.add(request)
        self._requests.setdefault(request, _Request()).keys.add(key)
        return asked.answer or (Answer.LATER if now < asked.end else Answer.LATE)

    def is_news(self, key: bytes, request: str) -> bool:
        """Whether this is the first time that ``request`` is told of ``key``; for counting."""
        told = self._requests.setdefault(request, _Request()).told
        if key in told:
            return False
        told.add(key)
        return True

    def grant(self, key: bytes, request: str, keys_max: int) -> bool:
        """Whether ``request`` may load ``key``, which is there.

        Each hit takes room in the engine's pool, and a request runs once all of its hits are in
        there together. One with more than fit would load for ever what it evicts itself.
        """
        granted = self._requests.setdefault(request, _Request()).granted
        times = granted.get(key, 0)
        if times >= GRANTS_MAX or (not times and len(granted) >= keys_max):
            return False
        granted[key] = times + 1
        return True

    def take_batch(self) -> list[bytes]:
        """The keys to ask for now: all that are new since the last time and still wanted."""
        batch = [key for key in dict.fromkeys(self._unsent) if key in self._keys]
        self._unsent.clear()
        return batch

    def resolve(self, keys: Sequence[bytes], answers: Iterable[Answer]) -> None:
        """Take answers. A key that is known to be of no use stays so."""
        for key, answer in zip(keys, answers, strict=True):
            asked = self._keys.get(key)
            if asked is not None and asked.answer is None:
                asked.answer = answer
                asked.miss_until = self._clock() + MISS_S

    def stored(self, keys: Iterable[bytes]) -> None:
        """These are there now: we put them there."""
        for key in keys:
            asked = self._keys.get(key)
            if asked is not None:
                asked.answer = Answer.HIT

    def fail(self, keys: Iterable[bytes]) -> None:
        """These could not be loaded: misses for whoever holds them, or they would ask for ever."""
        for key in keys:
            asked = self._keys.get(key)
            if asked is not None:
                asked.answer = Answer.FAILED
                asked.miss_until = self._clock() + MISS_S

    def hits_of(self, request: str) -> list[bytes]:
        """The keys of a request that are there, in no order."""
        held = self._requests.get(request)
        keys = held.keys if held else ()
        return [key for key in keys if self._keys[key].answer is Answer.HIT]

    def forget(self, request: str) -> None:
        """The request is over."""
        held = self._requests.pop(request, None)
        for key in held.keys if held else ():
            asked = self._keys[key]
            asked.requests.discard(request)
            if not asked.requests:
                del self._keys[key]

    def __len__(self) -> int:
        return len(self._keys)

    def _ask_again(self, key: bytes, asked: _Asked, now: float) -> None:
        """For a newcomer: requests overlap for hours, and others may have stored it meanwhile."""
        if now >= asked.miss_until:
            asked.answer = None
            asked.end = now + self._timeout_s
            self._unsent.append(key)
