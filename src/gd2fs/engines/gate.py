"""Gate: a span of pages is loaded only where that is expected to be quicker than computing it.

Both rates are observed. That of loading is bytes through time of the loads that ran; that of
computing is the best of the last samples, since a sample holds the time in queues too and the
quickest holds the least of it. As long as one of them is unknown, everything is loaded.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

LOAD_MEMORY = 0.8  # of what is known, kept with each new load
COMPUTE_SAMPLES = 32
COMPUTE_TOKENS_MIN = 64  # of a sample: below that, fixed costs are most of it
PROBE_S = 10.0  # when nothing was loaded for so long, one span is, to see how loading is now
MISSES_MAX = 1024  # spans that are remembered until they have been computed


@dataclass(frozen=True, slots=True)
class Rates:
    """What the gate knows. Zero: nothing yet.

    Attributes:
        load_bytes_per_s: Of loads, their waiting for the network included.
        compute_tokens_per_s: Of prefill.
        queued_bytes: Of loads under way.
    """

    load_bytes_per_s: float
    compute_tokens_per_s: float
    queued_bytes: int


@dataclass(slots=True)
class Load:
    """One load under way. ``arrived`` is set by whoever knows that not all of its bytes came."""

    arrived: int


class LoadGate:
    """Says whether a span is worth loading. Thread-safe.

    Args:
        is_open: Without a gate everything is loaded; rates are observed all the same.
        compute_tokens_per_s: Of prefill, when the operator knows it; it is then not observed.
    """

    def __init__(
        self,
        *,
        is_open: bool = False,
        compute_tokens_per_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_open = is_open
        self._given = compute_tokens_per_s
        self._clock = clock
        self._lock = threading.Lock()  # Guards: all below. Held for arithmetic only.
        self._bytes = 0.0
        self._seconds = 0.0
        self._queued = 0
        self._loaded_at = float("-inf")
        self._computed: deque[float] = deque(maxlen=COMPUTE_SAMPLES)

    def admits(self, *, tokens: int, size: int) -> bool:
        """Whether ``size`` bytes that stand for ``tokens`` tokens are to be loaded."""
        with self._lock:
            rates = self._rates()
            if self._is_open or not rates.load_bytes_per_s or not rates.compute_tokens_per_s:
                return True
            if not self._queued and self._clock() - self._loaded_at >= PROBE_S:
                return True
            load_s = (rates.queued_bytes + size) / rates.load_bytes_per_s
            return load_s <= tokens / rates.compute_tokens_per_s

    @contextmanager
    def loading(self, size: int) -> Iterator[Load]:
        """Around a load of ``size`` bytes: it queues others, and its time is a sample."""
        load = Load(arrived=size)
        with self._lock:
            self._queued += size
        begin = self._clock()
        try:
            yield load
        finally:
            now = self._clock()
            with self._lock:
                self._queued -= size
                self._loaded_at = now
                self._bytes = self._bytes * LOAD_MEMORY + load.arrived
                self._seconds = self._seconds * LOAD_MEMORY + now - begin

    def saw_compute(self, *, tokens: int, seconds: float) -> None:
        """Note that ``tokens`` were computed within ``seconds``."""
        if tokens >= COMPUTE_TOKENS_MIN and seconds > 0:
            with self._lock:
                self._computed.append(tokens / seconds)

    def rates(self) -> Rates:
        """What is known now."""
        with self._lock:
            return self._rates()

    def _rates(self) -> Rates:
        load = self._bytes / self._seconds if self._seconds > 0 else 0.0
        compute = self._given or max(self._computed, default=0.0)
        return Rates(load, compute, self._queued)


class ComputeWatch:
    """Times spans from the lookup that missed them to their store: what computing them took.

    Args:
        gate: Told what was seen.
        page_tokens: Of one page.
    """

    def __init__(
        self, gate: LoadGate, *, page_tokens: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gate = gate
        self._page_tokens = page_tokens
        self._clock = clock
        self._lock = threading.Lock()  # Guards: _missed.
        self._missed: OrderedDict[Hashable, float] = OrderedDict()  # first page, since when

    def missed(self, page: Hashable) -> None:
        """A lookup found this page, the first of its span, not to be there."""
        with self._lock:
            self._missed.setdefault(page, self._clock())
            while len(self._missed) > MISSES_MAX:
                self._missed.popitem(last=False)

    def stored(self, pages: Sequence[Hashable]) -> None:
        """These pages, in the order of their tokens, are computed."""
        with self._lock:
            found = [
                (at, self._missed.pop(page))
                for at, page in enumerate(pages)
                if page in self._missed
            ]
        now = self._clock()
        for at, since in found:
            tokens = (len(pages) - at) * self._page_tokens
            self._gate.saw_compute(tokens=tokens, seconds=now - since)
