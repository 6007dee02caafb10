"""Servers: engines as child processes, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from gd2fs.bench.fleet.server import EngineServer, ServerFault

__all__ = ["EngineServer", "ServerFault", "wait_until"]

POLL_S = 0.2


def wait_until(is_so: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until something is so. Raises AssertionError, naming it, when it takes too long."""
    end = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(POLL_S)
