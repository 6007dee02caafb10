"""Refusals: what the admin side has turned away, counted by its reason."""

from __future__ import annotations

import threading
from collections import Counter

REASONS = {  # each with what it means
    "no_token": "it shows no token",
    "unknown_token": "its token is of a name that the node does not know, or none at all",
    "wrong_secret": "its token has the name of one that the node knows, and another secret",
    "no_right": "its token does not have the right",
    "bad_request": "it makes no sense, or is too long",
    "timeout": "it asked nothing in time, or did not take its answer",
    "too_many": "too many connections are open, of its source or of all",
    "tls_handshake": "TLS came to nothing",
}


class Refusals:
    """Counts since the start. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Guards: the counts.
        self._counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, reason: str) -> None:
        """Count one; ``reason`` is of ``REASONS``."""
        assert reason in REASONS
        with self._lock:
            self._counts[reason] += 1

    def counts(self) -> dict[str, int]:
        """How many there were of each reason."""
        with self._lock:
            return dict(self._counts)
