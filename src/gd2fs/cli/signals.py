"""Signals: what a process is told from outside, taken by a thread of its own.

A handler would run in the middle of whatever the main thread does, where it may wait for a lock
that the main thread holds, an event's for one. To be made before any other thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """Takes SIGTERM, SIGINT and SIGHUP for as long as the process lives.

    Attributes:
        is_ended: The process shall end.
        on_reload: Called for SIGHUP; None: there is nothing to read again yet.
    """

    def __init__(self) -> None:
        self.is_ended = threading.Event()
        self.on_reload: Callable[[], None] | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)  # threads that follow inherit it
        threading.Thread(target=self._run, name="gd2fs-signals", daemon=True).start()

    def _run(self) -> None:
        while True:
            if signal.sigwait(NUMBERS) != signal.SIGHUP:
                self.is_ended.set()
            elif self.on_reload:
                self.on_reload()
