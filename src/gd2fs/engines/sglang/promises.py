"""Promises: pages that were said to be there and are not fetched yet, a queue before the loads.

SGLang loads one span after the other, and looks the next ones up meanwhile. What is promised has
to be loaded before what is asked about now, so it counts when that is worth its while.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

PATIENCE_S = 10.0  # SGLang may have let go of a request whose pages were promised
PAGES_MAX = 65_536


class Promises:
    """Pages and their bytes, until they are fetched or forgotten. Thread-safe."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # Guards: all below. Held for arithmetic only.
        self._pages: OrderedDict[str, tuple[int, float]] = OrderedDict()  # bytes, forgotten when
        self._size = 0

    def add(self, pages: Iterable[str], *, page_bytes: int) -> None:
        """Promise pages."""
        end = self._clock() + PATIENCE_S
        with self._lock:
            for page in pages:
                self._forget(page)
                self._pages[page] = (page_bytes, end)
                self._size += page_bytes
            while len(self._pages) > PAGES_MAX:
                self._forget(next(iter(self._pages)))

    def keep(self, pages: Iterable[str]) -> None:
        """Pages are fetched now."""
        with self._lock:
            for page in pages:
                self._forget(page)

    def size(self) -> int:
        """Bytes of what is promised."""
        now = self._clock()
        with self._lock:
            while self._pages:
                page, (_, end) = next(iter(self._pages.items()))
                if end > now:
                    break
                self._forget(page)
            return self._size

    def _forget(self, page: str) -> None:
        size, _ = self._pages.pop(page, (0, 0.0))
        self._size -= size
