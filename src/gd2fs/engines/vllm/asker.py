"""Asker: the thread that asks the store which keys it has, all of a step in one question."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from gd2fs.engines.counts import CountsBoard
from gd2fs.engines.vllm.handshake import Handshake, Standing
from gd2fs.engines.vllm.lookups import Answer

log = logging.getLogger(__name__)

REFRESH_S = 10.0  # between two looks after the recipe that instances agreed on
CLOSE_S = 10.0  # beyond its deadline, that the last question may take


class AskedStore(Protocol):
    """What is used of ``gd2fs.engines.store.EngineStore``."""

    board: CountsBoard

    @property
    def is_open(self) -> bool: ...
    def exists(self, keys: Sequence[bytes]) -> list[bool]: ...


class Asker:
    """Answers come in the order of the questions. ``ask`` and ``answers`` are for one thread.

    Args:
        store: Has its own deadline for each question.
        handshake: Nothing is asked before it is agreed.
        page_of: The key in the store of one of the engine's keys.
        tell: Leaves in the store what is for people; called once all agree, and at every look.
        refresh_s: Between two looks after the recipe.
    """

    def __init__(
        self,
        store: AskedStore,
        handshake: Handshake,
        page_of: Callable[[bytes], bytes],
        *,
        tell: Callable[[], object] = lambda: None,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._handshake = handshake
        self._page_of = page_of
        self._tell = tell
        self._has_told = False
        self._refresh_s = refresh_s
        self._clock = clock
        self._refresh_at = clock() + refresh_s
        self._questions: queue.SimpleQueue[list[bytes] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[list[bytes], list[Answer]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="gd2fs-lookup", daemon=True)
        self._thread.start()

    def ask(self, keys: list[bytes]) -> None:
        """Ask for these. They are answered even when the store is away."""
        self._questions.put(keys)

    def answers(self) -> list[tuple[list[bytes], list[Answer]]]:
        """What has been answered since the last call."""
        taken = []
        while True:
            try:
                taken.append(self._answers.get_nowait())
            except queue.Empty:
                return taken

    def close(self) -> bool:
        """End the thread. Whether it has ended."""
        self._questions.put(None)
        self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (keys := self._next()) is not None:
            if not keys:
                self._refresh()
                continue
            keys, is_last = self._with_waiting(keys)
            try:
                answers = self._answers_to(keys)
            except Exception:
                log.exception("a lookup of %d keys failed", len(keys))
                answers = [Answer.AWAY] * len(keys)
            self._answers.put((keys, answers))
            if is_last:
                return
            if not self._has_told and self._handshake.standing is Standing.AGREED:
                self._refresh()

    def _refresh(self) -> None:
        """Look after the recipe. This thread must outlive whatever comes of it."""
        try:
            self._handshake.refresh()
            if self._handshake.standing is Standing.AGREED:
                self._has_told = True
                self._tell()
        except Exception:
            log.exception("the recipe could not be looked after")

    def _next(self) -> list[bytes] | None:
        """A question; no keys when it is time to look after the recipe; None at the end."""
        left_s = self._refresh_at - self._clock()
        if left_s > 0:
            with suppress(queue.Empty):
                return self._questions.get(timeout=left_s)
        self._refresh_at = self._clock() + self._refresh_s
        return []

    def _with_waiting(self, keys: list[bytes]) -> tuple[list[bytes], bool]:
        """All that waits by now: a slow store is asked less often, not ever later."""
        merged = list(keys)
        while True:
            try:
                more = self._questions.get_nowait()
            except queue.Empty:
                return merged, False
            if more is None:
                return merged, True
            merged += more

    def _answers_to(self, keys: list[bytes]) -> list[Answer]:
        if self._handshake.settle() is not Standing.AGREED:
            return [Answer.APART] * len(keys)
        before = self._store.board.read().unavailable
        present = self._store.exists([self._page_of(key) for key in keys])
        has_answered = self._store.is_open and self._store.board.read().unavailable == before
        absent = Answer.ABSENT if has_answered else Answer.AWAY
        return [Answer.HIT if is_there else absent for is_there in present]
