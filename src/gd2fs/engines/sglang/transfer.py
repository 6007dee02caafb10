"""Transfer: pages between SGLang's host pools and the store, several pools in one call.

What lies in place goes by address: the store reads or fills the pool itself. Pages of other pools
go by flat copies, which live until the call is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gd2fs.engines.sglang.figures import Figures
from gd2fs.engines.sglang.pools import PageBuffers, PagePool, piece_of
from gd2fs.engines.store import EngineStore

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Pages of one pool that are part of a call.

    Attributes:
        pool: The pool; None when SGLang has not registered it.
        keys: Of the pages, as the store knows them.
        slots: Token slots of the pages in the host pool, ``pool.page_slots`` for each page.
        is_ours: Whether this rank stores them.
    """

    pool: PagePool | None
    keys: list[bytes]
    slots: torch.Tensor | None
    is_ours: bool

    def answer(self, *, is_save: bool) -> list[bool] | None:
        """What is known without the store; None: the store has to be asked."""
        if not self.keys or self.pool is None or self.slots is None:
            return [False] * len(self.keys)
        if not self.pool.has_bytes or (is_save and not self.is_ours):
            return [True] * len(self.keys)  # nothing to move, or another rank moves it
        if int(self.slots.numel()) != len(self.keys) * self.pool.page_slots:
            log.error(
                "%d slots for %d pages of %s", len(self.slots), len(self.keys), self.pool.name
            )
            return [False] * len(self.keys)
        return None if self.pool.page_bytes else [False] * len(self.keys)


class Transfers:
    """Loads and saves parts. Thread-safe; raises nothing of the store's.

    Args:
        store: Of the pages.
        figures: Told what was moved.
    """

    def __init__(self, store: EngineStore, figures: Figures) -> None:
        self._store = store
        self._figures = figures

    def load(self, parts: Sequence[Part]) -> list[list[bool]]:
        """Fill pages of the host pools; of each part, of each page whether it is there now."""
        known = [part.answer(is_save=False) for part in parts]
        flats = [
            part.pool.blanks(len(part.keys))
            if part.pool is not None and answer is None and not part.pool.is_in_place
            else []
            for part, answer in zip(parts, known, strict=True)
        ]
        found = self._move("prefetch", parts, known, flats)
        for part, flat, own in zip(parts, flats, found, strict=True):
            if flat and part.pool is not None:
                filled = [page if ok else None for page, ok in zip(flat, own, strict=True)]
                part.pool.fill_in(part.slots, filled)
        return found

    def save(self, parts: Sequence[Part]) -> list[list[bool]]:
        """Store pages of the host pools; of each part, of each page whether it is there now."""
        known = [part.answer(is_save=True) for part in parts]
        flats = [
            part.pool.copies(part.slots)
            if part.pool is not None and answer is None and not part.pool.is_in_place
            else []
            for part, answer in zip(parts, known, strict=True)
        ]
        return self._move("backup", parts, known, flats)

    def load_flat(self, keys: list[bytes], tensors: Sequence[torch.Tensor]) -> list[bool]:
        """Fill contiguous tensors, one for each page."""
        return self._timed("prefetch", keys, list(map(piece_of, tensors)))

    def save_flat(self, keys: list[bytes], tensors: Sequence[torch.Tensor]) -> list[bool]:
        """Store tensors, one for each page."""
        own = [tensor.contiguous() for tensor in tensors]
        return self._timed("backup", keys, list(map(piece_of, own)))

    def _move(
        self,
        kind: str,
        parts: Sequence[Part],
        known: Sequence[list[bool] | None],
        flats: Sequence[Sequence[torch.Tensor]],
    ) -> list[list[bool]]:
        """One call for all pages whose answer is not known yet."""
        keys: list[bytes] = []
        buffers: list[PageBuffers] = []
        for part, answer, flat in zip(parts, known, flats, strict=True):
            if answer is None and part.pool is not None:
                keys += part.keys
                buffers += map(piece_of, flat) if flat else part.pool.buffers(part.slots)
        moved = iter(self._timed(kind, keys, buffers) if keys else [])
        return [
            [next(moved) for _ in part.keys] if answer is None else answer
            for part, answer in zip(parts, known, strict=True)
        ]

    def _timed(
        self, kind: str, keys: Sequence[bytes], buffers: Sequence[PageBuffers]
    ) -> list[bool]:
        begin = time.monotonic()
        done = (self._store.get if kind == "prefetch" else self._store.put)(keys, buffers)
        seconds = time.monotonic() - begin
        size = sum(length_of(each) for each, ok in zip(buffers, done, strict=True) if ok)
        self._figures.transferred(kind, pages=sum(done), size=size, seconds=seconds)
        return done


def length_of(buffers: PageBuffers) -> int:
    """Bytes of one page."""
    pieces = buffers if isinstance(buffers, list) else [buffers]
    return sum(length for _, length in pieces)
