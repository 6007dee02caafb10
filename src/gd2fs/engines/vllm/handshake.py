"""Handshake: one recipe for all instances of a model, agreed on through the store.

Pages can never be mixed: all that gives their bytes a meaning is in their namespace. What is
compared here is what would part instances without a word. The first one leaves its recipe as a page
of a namespace where all of them meet; the first value under a key stays, so of two that begin at
once one is first. Whoever comes to another recipe is refused. While the store is away nothing is
known, and nothing is shared.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from gd2fs.engines.counts import CountsBoard
from gd2fs.engines.vllm.recipe import HashRecipe
from gd2fs.errors import InvalidRequest

log = logging.getLogger(__name__)

RECIPE_KEY = b"recipe"
RECORD_BYTES = 4096  # of the page: the text, and spaces after it
START_S = 2.0  # that the comparison may hold up the start of an engine


class RecordStore(Protocol):
    """What is used of ``gd2fs.engines.store.EngineStore``."""

    board: CountsBoard

    @property
    def namespace(self) -> str: ...
    def put(
        self, keys: Sequence[bytes], values: Sequence[Any], *, deadline_s: float | None
    ) -> list[bool]: ...
    def get(
        self, keys: Sequence[bytes], into: Sequence[Any], *, deadline_s: float | None
    ) -> list[bool]: ...
    def close(self) -> None: ...


class Standing(Enum):
    """How an instance stands with the others."""

    UNKNOWN = 0  # the store has not answered yet
    AGREED = 1
    REFUSED = 2


class Handshake:
    """Of one instance. Thread-safe; whoever asks first settles it for all.

    Args:
        store: Of the namespace where instances of this model meet. Closed with this.
        recipe: Ours.
        where: What to call that place, for messages.
        timeout_s: Deadline of each try once the engine runs.
    """

    def __init__(
        self, store: RecordStore, recipe: HashRecipe, where: str, *, timeout_s: float
    ) -> None:
        self._store = store
        self._recipe = recipe
        self._where = where
        self._timeout_s = timeout_s
        self._lock = threading.Lock()  # Guards: the comparison. Held while the store is asked.
        self._is_closed = False
        self._has_told_of_length = False
        self.standing = Standing.UNKNOWN
        self.fault = ""

    def settle(self) -> Standing:
        """Compare, when that has not been done and the store answers. Never raises."""
        return self._settle(self._timeout_s)

    def refresh(self) -> None:
        """Settle, or put our recipe again, should the store have lost it. Never raises."""
        if self.settle() is Standing.AGREED:
            self._store.put([RECIPE_KEY], [self._record()], deadline_s=self._timeout_s)

    def check(self) -> None:
        """Settle at the start.

        Raises:
            InvalidRequest: Others of this model hash otherwise. A store that is away raises
                nothing: it is asked again when it is back.
        """
        if self._settle(START_S) is Standing.REFUSED:
            raise InvalidRequest(
                self.fault,
                hint="or give this instance a `tag`: it shares with that tag alone; when no other "
                f"instance is left, clear the namespace `{self._store.namespace}`",
            )

    def close(self) -> None:
        """Let go of the store. Twice is fine."""
        self._is_closed = True
        self._store.close()

    def _settle(self, timeout_s: float) -> Standing:
        if self.standing is not Standing.UNKNOWN or not self._lock.acquire(blocking=False):
            return self.standing
        try:
            if self.standing is Standing.UNKNOWN and not self._is_closed:
                self._compare(timeout_s)
        finally:
            self._lock.release()
        return self.standing

    def _compare(self, timeout_s: float) -> None:
        recorded = bytearray(RECORD_BYTES)
        if not all(self._store.put([RECIPE_KEY], [self._record()], deadline_s=timeout_s)):
            return
        before = self._store.board.read().wrong_sizes
        if not all(self._store.get([RECIPE_KEY], [recorded], deadline_s=timeout_s)):
            if self._store.board.read().wrong_sizes > before:
                self._tell_of_length()
            return
        differences = self._recipe.differences(recorded.decode("utf-8", "replace"))
        if differences:
            which = "; ".join(differences)
            self.fault = f"this instance cannot share a cache with others of {self._where}: {which}"
            log.error("%s; nothing is loaded or stored", self.fault)
        self.standing = Standing.REFUSED if differences else Standing.AGREED

    def _tell_of_length(self) -> None:
        """Once: what stays unknown for such a reason stays so, and nothing else would say why."""
        if not self._has_told_of_length:
            self._has_told_of_length = True
            log.warning(
                "the page `recipe` of %s is not of %d bytes, so it is none of a recipe: nothing is "
                "loaded or stored; clear the namespace `%s`",
                *(self._where, RECORD_BYTES, self._store.namespace),
            )

    def _record(self) -> bytes:
        record = self._recipe.as_text().encode().ljust(RECORD_BYTES)
        assert len(record) == RECORD_BYTES, "a recipe is longer than its page"
        return record
