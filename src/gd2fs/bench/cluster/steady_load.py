"""Steady load: gets of pages at a fixed rate, each with its moment, its time and its outcome."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from gd2fs.client import Client
from gd2fs.errors import GD2FSError

S = 1_000_000_000  # ns

HIT, MISS, FAILED, WRONG = "hit", "miss", "failed", "wrong"


@dataclass(frozen=True, slots=True)
class Get:
    """One get: of which key, when it began, how long it took, what came of it."""

    key: int
    start_ns: int
    took_ns: int
    outcome: str

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.took_ns


class SteadyLoad:
    """Threads that get random pages, together ``per_s`` a second, until the context ends.

    A get that takes long makes its thread late; what it missed meanwhile is not made up for, so
    the rate falls while calls wait.

    Args:
        client: Used by all threads.
        namespace: Of the pages.
        keys: Their names; the value of ``keys[at]`` must be ``value_of(at)``.
        value_bytes: Of every value.
        per_s: Gets a second, of all threads.
        threads: How many calls may wait at the same time.
        only: Numbers of the keys that are asked for; else all.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        keys: Sequence[str],
        value_bytes: int,
        *,
        per_s: float,
        threads: int,
        only: Sequence[int] | None = None,
        seed: int = 1,
    ) -> None:
        self._pages = client.pages(namespace)
        self._keys = keys
        self._only = range(len(keys)) if only is None else only
        self._value_bytes = value_bytes
        self._every_s = threads / per_s
        self._is_over = threading.Event()
        self._gets: list[list[Get]] = [[] for _ in range(threads)]
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed + at), gets))
            for at, gets in enumerate(self._gets)
        ]

    def __enter__(self) -> SteadyLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def gets(self) -> list[Get]:
        """All that has ended, in the order of begins."""
        return sorted((get for gets in self._gets for get in list(gets)), key=lambda g: g.start_ns)

    def _run(self, chance: random.Random, gets: list[Get]) -> None:
        room = bytearray(self._value_bytes)
        next_s = time.monotonic() + chance.random() * self._every_s
        while not self._is_over.wait(max(0.0, next_s - time.monotonic())):
            key = chance.choice(self._only)
            start_ns = time.monotonic_ns()
            outcome = self._get(key, room)
            gets.append(Get(key, start_ns, time.monotonic_ns() - start_ns, outcome))
            next_s = max(next_s + self._every_s, time.monotonic())

    def _get(self, key: int, room: bytearray) -> str:
        try:
            size = self._pages.get([self._keys[key]], [room]).sizes[0]
        except GD2FSError:
            return FAILED
        if size is None:
            return MISS
        return HIT if room == value_of(key, self._value_bytes) else WRONG


def value_of(key: int, value_bytes: int) -> bytes:
    """The value of a key: its number over and over. ``value_bytes`` is a multiple of 8."""
    return key.to_bytes(8, "little") * (value_bytes // 8)


def fill(client: Client, namespace: str, keys: Sequence[str], value_bytes: int) -> int:
    """Put all pages, in batches; how many are stored."""
    pages, batch, stored = client.pages(namespace), 256, 0
    for begin in range(0, len(keys), batch):
        part = range(begin, min(begin + batch, len(keys)))
        values = [value_of(at, value_bytes) for at in part]
        stored += sum(pages.put([keys[at] for at in part], values, timeout_s=30.0))
    return stored
