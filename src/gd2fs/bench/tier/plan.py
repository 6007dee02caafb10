"""Plan: what `gd2fs bench tier` measures, how large it is, and what it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
PAGE_BYTES = 4 * MIB
BLOCK_BYTES = 64 << 10  # what DONTNEED counts in
OVER = 3  # the pages are so many times the memory
CALL_PAGES = 16  # of a call; a node reads half of them ahead of it
CALLERS = 2  # at a time
DEPTH = CALLERS * CALL_PAGES // 2  # reads in flight at a node so, and at most of fio
HOT_PAGES = 16  # that are read from memory, over and over
DIRTY_SHARE = 4  # as core/tier.h has it: a quarter of memory may be ahead of the disk
READ_TARGET = 0.85  # of fio
BESIDE_TARGET = 0.90  # of reads with nothing beside them
WARM_TARGET = 0.90  # of reads of what never left memory
CANCEL_TARGET_MS = 50.0
SPARE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and where.

    Attributes:
        folder: On the file system to measure.
        memory_bytes: Of the node whose pages are three times as many.
        file_bytes: Of the file that is advised; its node has half as much memory again, or more.
        rate: Bytes a second that may be written to disk beside reads of memory.
        rounds: Of everything that is compared, in turn.
        seconds: Of each reading.
        arena: As ``gd2fs serve --arena``.
    """

    folder: Path
    memory_bytes: int = 256 * MIB
    file_bytes: int = 1024 * MIB
    rate: int = 128 * MIB
    rounds: int = 7
    seconds: float = 2.0
    arena: str = "auto"

    @property
    def pages(self) -> int:
        """How many there are on disk."""
        return OVER * self.memory_bytes // PAGE_BYTES

    @property
    def advised_memory_bytes(self) -> int:
        """Of the second node: the file, what is written beside it, and room to evict in."""
        beside = HOT_PAGES * PAGE_BYTES + self.excess_bytes
        return max(self.file_bytes, beside * DIRTY_SHARE // (DIRTY_SHARE - 1)) * 3 // 2

    @property
    def excess_bytes(self) -> int:
        """What there is to write beside reads of memory: more than there is time for."""
        return int(self.rate * self.seconds * 1.5)

    @property
    def disk_bytes(self) -> int:
        """What it all takes of the file system at most."""
        return 4 * (OVER * self.memory_bytes) + 4 * self.advised_memory_bytes + SPARE_BYTES


def quick(settings: Settings) -> Settings:
    """The same, small: a trial."""
    return Settings(
        folder=settings.folder,
        memory_bytes=64 * MIB,
        file_bytes=64 * MIB,
        rate=32 * MIB,
        rounds=2,
        seconds=0.3,
        arena=settings.arena,
    )
