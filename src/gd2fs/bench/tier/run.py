"""Run: all that `gd2fs bench tier` measures, on two nodes one after the other, in one folder."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gd2fs.bench.board import Board
from gd2fs.bench.tier.advised import (
    AdvisedFile,
    Cancelled,
    DontNeed,
    WillNeed,
    measure_cancel,
    measure_dontneed,
    measure_willneed,
)
from gd2fs.bench.tier.beside import BesideDemotion, measure_beside
from gd2fs.bench.tier.cold import ColdReads, OverMemory, measure_cold, measure_over_memory
from gd2fs.bench.tier.plan import Settings
from gd2fs.bench.tier.tiered_node import PageSet, TieredNode
from gd2fs.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures of one run."""

    cold: ColdReads
    over: OverMemory
    beside: BesideDemotion
    willneed: WillNeed
    cancelled: Cancelled
    dontneed: DontNeed

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        told = asdict(self)
        for name in ("cold", "beside", "willneed"):
            told[name]["ratio"] = getattr(self, name).ratio
        return told


def run_tier(settings: Settings, board: Board) -> Outcome:
    """Measure; what was written is removed, whatever happens.

    Raises:
        InvalidRequest: The folder has too little room, the arena cannot be had, or fio is missing.
        Unavailable: A page was missed, or fio failed.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.folder).free
    if free < settings.disk_bytes:
        raise InvalidRequest(
            f"`{settings.folder}` has {free} bytes free, this takes up to {settings.disk_bytes}",
            hint="choose another `--folder`, or less `--memory` and `--file`",
        )
    with tempfile.TemporaryDirectory(prefix="gd2fs-bench-", dir=settings.folder) as folder:
        cold, over = _pages(settings, Path(folder), board)
        beside, willneed, cancelled, dontneed = _advice(settings, Path(folder), board)
    return Outcome(cold, over, beside, willneed, cancelled, dontneed)


def _pages(settings: Settings, folder: Path, board: Board) -> tuple[ColdReads, OverMemory]:
    with TieredNode(
        folder / "pages",
        memory_bytes=settings.memory_bytes,
        disk_bytes=8 * settings.memory_bytes,
        arena=settings.arena,
    ) as node:
        pages = PageSet(node, "pages", settings.pages)
        with board.stage("three times the memory", 2) as stage:
            pages.put()
            stage.step("written")
            over = measure_over_memory(settings, pages, stage)
        with board.stage("pages on disk, and fio", settings.rounds) as stage:
            cold = measure_cold(settings, folder, node, pages, stage)
    shutil.rmtree(folder / "pages")
    return cold, over


def _advice(
    settings: Settings, folder: Path, board: Board
) -> tuple[BesideDemotion, WillNeed, Cancelled, DontNeed]:
    memory = settings.advised_memory_bytes
    with TieredNode(
        folder / "advised", memory_bytes=memory, disk_bytes=4 * memory, arena=settings.arena
    ) as node:
        with board.stage("reads beside writes to disk", settings.rounds) as stage:
            beside = measure_beside(settings, node, stage)
        file = AdvisedFile(node, settings.file_bytes)
        with board.stage("willneed, then reads", settings.rounds) as stage:
            willneed = measure_willneed(settings, node, file, stage)
        with board.stage("willneed, cancelled", settings.rounds) as stage:
            cancelled = measure_cancel(settings, file, stage)
        with board.stage("dontneed", settings.rounds) as stage:
            dontneed = measure_dontneed(settings, file, stage)
    return beside, willneed, cancelled, dontneed
