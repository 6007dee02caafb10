"""Content: bytes that tell which operation wrote them, and from which place of it.

Every 8 bytes are one word: the number of the operation above, the index of the word in that
operation below. Places and lengths are multiples of a word, so any range that is read tells
its writers. A word of zeros is one that nobody wrote.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WORD_BYTES = 8
NUMBER_SHIFT = 32  # of an operation in a word; below it, the index
RUNS_MAX = 4096  # of one read; more mean that the bytes are noise

HOLE = 0  # the number of nobody


@dataclass(frozen=True, slots=True)
class Run:
    """``length`` bytes of a read at ``at``, that operation ``number`` has from ``origin`` on."""

    at: int
    length: int
    number: int
    origin: int

    @property
    def end(self) -> int:
        return self.at + self.length


def content_of(number: int, length: int) -> bytes:
    """All bytes of operation ``number``, ``length`` of them, a multiple of a word."""
    assert length % WORD_BYTES == 0
    words = np.arange(length // WORD_BYTES, dtype="<u8")
    return (words | np.uint64(number << NUMBER_SHIFT)).tobytes()


def runs_of(content: bytes | bytearray | memoryview, at: int = 0) -> list[Run]:
    """Who wrote ``content``, which was read at ``at``: runs in order, without gaps."""
    tail = len(content) % WORD_BYTES
    words = np.frombuffer(content, dtype="<u8", count=len(content) // WORD_BYTES)
    numbers = (words >> np.uint64(NUMBER_SHIFT)).astype(np.int64)
    indexes = (words & np.uint64((1 << NUMBER_SHIFT) - 1)).astype(np.int64)
    # Zero where a word is its predecessor's successor, or both are holes.
    shifts = np.where(words == 0, 0, indexes - np.arange(len(words)))
    is_new = (np.diff(numbers) != 0) | (np.diff(shifts) != 0) | (np.diff(words == 0) != 0)
    begins = [0, *(np.flatnonzero(is_new) + 1).tolist()] if len(words) else []
    runs = [
        Run(
            at + begin * WORD_BYTES,
            (end - begin) * WORD_BYTES,
            int(numbers[begin]),
            int(indexes[begin]) * WORD_BYTES,
        )
        for begin, end in zip(begins[:RUNS_MAX], [*begins[1:], len(words)], strict=False)
    ]
    if tail:  # no operation has part of a word
        runs.append(Run(at + len(words) * WORD_BYTES, tail, -1, 0))
    return runs
