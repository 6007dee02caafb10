"""Replay: a recorded trace of requests, each with the pages of its prompt, against a store.

A trace is lines of JSON with `hash_ids`, the blocks of a prompt in order, as Mooncake publishes
them. Each request gets its pages and then puts those that were missing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gd2fs.bench.cluster.steady_load import value_of
from gd2fs.client import Client
from gd2fs.errors import GD2FSError, InvalidRequest

NAMESPACE = "replay"
WINDOW_S = 10.0
PAGES_MAX = 1024  # of one request


@dataclass
class Replayed:
    """What a replay came to. Counted are leading pages: after a miss no prompt can go on.

    Attributes:
        asked, hits: Pages, for each window of 10 s of the trace's own time.
        wrong: Pages with other bytes than were put.
        errors: Calls that raised.
    """

    asked: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    wrong: int = 0
    errors: int = 0

    @property
    def rate(self) -> float:
        return sum(self.hits) / max(1, sum(self.asked))

    def rates(self) -> list[float]:
        """The hit rate of every window."""
        return [hits / max(1, asked) for hits, asked in zip(self.hits, self.asked, strict=True)]


def read_trace(file: Path, count: int) -> list[list[int]]:
    """The pages of the first ``count`` requests. Raises InvalidRequest when it is no such trace."""
    try:
        with open(file, encoding="utf-8") as lines:
            trace = [json.loads(line)["hash_ids"][:PAGES_MAX] for line in islice(lines, count)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(
            f"{file} is no trace: {error}", hint="lines of JSON with `hash_ids`, as Mooncake's"
        ) from error
    if not trace:
        raise InvalidRequest(f"{file} has no requests", hint="name another file")
    return trace


class Replay(threading.Thread):
    """Plays a trace in order, ``per_s`` requests a second, or as fast as they are answered."""

    def __init__(
        self, client: Client, trace: Sequence[Sequence[int]], *, per_s: float, value_bytes: int
    ) -> None:
        super().__init__(name="replay")
        self._pages = client.pages(NAMESPACE)
        self._trace = trace
        self._per_s = per_s
        self._value_bytes = value_bytes
        self._rooms = [bytearray(value_bytes) for _ in range(PAGES_MAX)]
        self._is_over = threading.Event()
        self.done = 0  # requests
        self.replayed = Replayed()

    def stop(self) -> None:
        """End it early, and wait."""
        self._is_over.set()
        self.join()

    def run(self) -> None:
        start_s = time.monotonic()
        for at, ids in enumerate(self._trace):
            planned_s = at / self._per_s
            if self._is_over.wait(max(0.0, start_s + planned_s - time.monotonic())):
                return
            self._count(int(planned_s / WINDOW_S), len(ids), self._play(ids))
            self.done = at + 1

    def _count(self, window: int, asked: int, hits: int) -> None:
        if window == len(self.replayed.asked):
            self.replayed.asked.append(0)
            self.replayed.hits.append(0)
        self.replayed.asked[window] += asked
        self.replayed.hits[window] += hits

    def _play(self, ids: Sequence[int]) -> int:
        """One request; how many of its leading pages were there."""
        keys = [f"{number}" for number in ids]
        try:
            leading = self._pages.get(keys, self._rooms[: len(keys)]).leading
        except GD2FSError:
            self.replayed.errors += 1
            leading = 0
        rooms = zip(ids[:leading], self._rooms, strict=False)
        self.replayed.wrong += sum(
            room != value_of(number, self._value_bytes) for number, room in rooms
        )
        if leading < len(keys):
            self._put(keys[leading:], ids[leading:])
        return leading

    def _put(self, keys: Sequence[str], ids: Sequence[int]) -> None:
        try:
            self._pages.put(keys, [value_of(number, self._value_bytes) for number in ids])
        except GD2FSError:
            self.replayed.errors += 1
