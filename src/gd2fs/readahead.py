"""Readahead: files that are read from front to back are loaded ahead of their reader.

Each read starts the load of what follows it, on all nodes that have it; nobody waits for that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from gd2fs import _core
from gd2fs.advice import WISHES
from gd2fs.argument import name_bytes

PATHS_MAX = 1024  # the least lately read are forgotten
WINDOW_BYTES = 64 << 20  # ahead of the reader
STEP_BYTES = 16 << 20  # so far it reads before more is asked for
TIMEOUT_MS = 30_000


class Readahead:
    """Which files these are, and how far each is asked for. Thread-safe."""

    def __init__(self, core: _core.Client) -> None:
        self._core = core
        self._lock = threading.Lock()  # Guards: the two below.
        self._asked: OrderedDict[bytes, int] = OrderedDict()  # path -> up to where
        self._calls: OrderedDict[bytes, _core.Call] = OrderedDict()  # the last one of each

    def add(self, path: bytes) -> None:
        """From now on ``path`` is loaded ahead of its reader."""
        with self._lock:
            self._asked[path] = 0
            while len(self._asked) > PATHS_MAX:
                forgotten, _ = self._asked.popitem(last=False)
                self._calls.pop(forgotten, None)

    def remove(self, path: bytes) -> None:
        """It is read like any other again."""
        with self._lock:
            self._asked.pop(path, None)
            self._calls.pop(path, None)

    def note(self, name: str, end: int) -> None:
        """The file was read up to ``end``."""
        if not self._asked:  # nearly always
            return
        path = name_bytes(name)
        with self._lock:
            asked = self._asked.get(path)
            if asked is None:
                return
            self._asked.move_to_end(path)
            is_back = end + WINDOW_BYTES < asked  # it was read anew from further in front
            if not is_back and asked - end > WINDOW_BYTES - STEP_BYTES:
                return
            begin = end if is_back else max(end, asked)
            self._asked[path] = end + WINDOW_BYTES
            self._calls[path] = self._core.advise_memory(
                path, WISHES["willneed"], begin, end + WINDOW_BYTES - begin, timeout_ms=TIMEOUT_MS
            )
