"""TLS watch: tells in the log what came of certificates that were changed while a node runs.

The native server looks at the files and counts; here it is only asked, once a second.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from gd2fs import _core
from gd2fs.errors import Closed

POLL_S = 1.0

log = logging.getLogger(__name__)


class TlsWatch:
    """Asks a server about its certificates, until ``stop``."""

    def __init__(self, server: _core.Server, poll_s: float = POLL_S) -> None:
        self._server = server
        self._poll_s = poll_s
        self._reloads, self._faults = self._counts()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gd2fs-tls", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Twice is fine."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._poll_s):
            try:
                self._look()
            except Closed:
                return

    def _look(self) -> None:
        reloads, faults = self._counts()
        if faults > self._faults:
            # Empty: files that are right came between the count and the question.
            reason = self._server.tls_fault() or "they were half written for a moment"
            log.error("certificates stay as they were: %s", reason)
        if reloads > self._reloads:
            ends_s = self._server.counts()["tls_expires_s"]
            ends = datetime.fromtimestamp(ends_s, UTC).isoformat(sep=" ", timespec="seconds")
            log.info("certificates are read again; the node's own ends on %s", ends)
        self._reloads, self._faults = reloads, faults

    def _counts(self) -> tuple[int, int]:
        counts = self._server.counts()
        return counts["tls_reloads"], counts["tls_reload_faults"]
