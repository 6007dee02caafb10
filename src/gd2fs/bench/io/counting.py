"""Counting: how fast a Python thread counts, alone in its process or beside a thread that loads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from gd2fs.bench.io.job import Job

STEPS = 10_000  # between two looks at the clock


def count_for(seconds: float) -> float:
    """Steps a second of a loop that does nothing but count."""
    number, start_s = 0, time.perf_counter()
    end_s = start_s + seconds
    while (now_s := time.perf_counter()) < end_s:
        for _ in range(STEPS):
            number += 1
    return number / (now_s - start_s)


def load_for(job: Job, seconds: float, is_wanted: Callable[[], bool] = lambda: True) -> float:
    """Calls a second of ``job``, one after the other."""
    calls, start_s = 0, time.perf_counter()
    while (now_s := time.perf_counter()) < start_s + seconds and is_wanted():
        job.call()
        calls += 1
    return calls / (now_s - start_s)


def count_beside(job: Job, seconds: float) -> dict[str, Any]:
    """Both at once, in two threads: ``steps_per_s`` and ``calls_per_s``."""
    found: dict[str, Any] = {}
    is_over = threading.Event()

    def load() -> None:
        found["calls_per_s"] = load_for(job, seconds * 2, lambda: not is_over.is_set())

    loader = threading.Thread(target=load, name="load")
    loader.start()
    try:
        found["steps_per_s"] = count_for(seconds)
    finally:
        is_over.set()
        loader.join()
    return found
