"""Boottime: the clock of leases. It goes on while the machine sleeps, and nobody sets it."""

from __future__ import annotations

import time


def boottime_ms() -> int:
    """Milliseconds since the machine started, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
