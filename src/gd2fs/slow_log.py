"""Slow log: tells of requests that took long, with the trace that they belong to."""

from __future__ import annotations

import logging
import threading

from gd2fs import _core
from gd2fs.errors import Closed

POLL_S = 1.0
TOLD_MAX = 20  # in one round
PATIENT_OPS = {"advise", "configure", "drain", "drop", "list", "sync", "why"}  # long by nature

log = logging.getLogger(__name__)


class SlowLog:
    """Asks a server about its slow requests once a second, until ``stop``."""

    def __init__(self, server: _core.Server, poll_s: float = POLL_S) -> None:
        self._server = server
        self._poll_s = poll_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gd2fs-slow-log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Twice is fine."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._poll_s):
            try:
                requests, untold = self._server.take_slow()
            except Closed:
                return
            for op, transport, took_us, trace in requests[:TOLD_MAX]:
                _tell(op, transport, took_us, trace)
            untold += max(len(requests) - TOLD_MAX, 0)
            if untold:
                log.warning("and %d more slow requests", untold, extra={"fields": {"more": untold}})


def _tell(op: str, transport: str, took_us: int, trace: int) -> None:
    level = logging.INFO if op in PATIENT_OPS else logging.WARNING
    fields = {"op": op, "transport": transport, "took_ms": round(took_us / 1000)}
    if trace:
        fields["trace"] = f"{trace:016x}"
    words = f"slow {op}: {fields['took_ms']} ms over {transport}"
    log.log(level, words + (f", trace {trace:016x}" if trace else ""), extra={"fields": fields})
