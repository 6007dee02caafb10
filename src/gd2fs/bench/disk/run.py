"""Run: the disk tier's engine and fio in turn, in one folder, and how fast a start would be."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gd2fs import _core
from gd2fs.bench.disk.fio import Fio
from gd2fs.errors import InvalidRequest

RATIO_TARGET = 0.85
SCAN_TARGET_S = 60  # of 1 TiB of records of 4 MiB
TIB = 1 << 40
SPACE_FACTOR = 3  # fio's file, the log, and what the log keeps spare
SPARE_BYTES = 4 << 30
HUGE_PAGE_BYTES = 2 << 20
HUGE_ARENAS = ("auto", "hugetlb")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured, and where."""

    folder: Path
    total_bytes: int
    record_bytes: int
    depth: int
    io: str
    arena: str
    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """Bytes per second of one after the other."""

    fio: float
    verified: float
    plain: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures of one run. Rates in bytes per second."""

    is_uring: bool
    is_direct: bool
    is_huge: bool
    rounds: tuple[Round, ...]
    written: float
    scanned_records: int
    scanned_bytes: int
    scan_ms: int

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: verified reads to fio's."""
        return statistics.median(each.verified / each.fio for each in self.rounds)

    @property
    def plain_ratio(self) -> float:
        """The same of reads whose hashes nobody looked at."""
        return statistics.median(each.plain / each.fio for each in self.rounds)

    @property
    def scan_s_per_tib(self) -> float:
        """How long a start would take with 1 TiB in the log, at the rate of this one."""
        return self.scan_ms / 1e3 * TIB / max(self.scanned_bytes, 1)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            **asdict(self),
            "ratio": self.ratio,
            "plain_ratio": self.plain_ratio,
            "scan_s_per_tib": self.scan_s_per_tib,
        }


def run_disk(settings: Settings, tell: Callable[[str], None]) -> Outcome:
    """Measure; what was written is removed, whatever happens.

    Raises:
        InvalidRequest: The folder has too little room, or fio is missing.
        Unavailable: A read failed or was wrong, or fio failed.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    needed = SPACE_FACTOR * settings.total_bytes + SPARE_BYTES
    free = shutil.disk_usage(settings.folder).free
    if free < needed:
        raise InvalidRequest(
            f"`{settings.folder}` has {free} bytes free, this takes up to {needed}",
            hint="choose another `--folder`, or fewer `--bytes`",
        )
    with tempfile.TemporaryDirectory(prefix="gd2fs-bench-", dir=settings.folder) as folder:
        return _measure(settings, Path(folder), tell)


def _measure(settings: Settings, folder: Path, tell: Callable[[str], None]) -> Outcome:
    tell("filling the log")
    reader = _core.DiskReader(
        str(folder / "log"),
        bytes=settings.total_bytes,
        record_bytes=settings.record_bytes,
        depth=settings.depth,
        io=settings.io,
        arena=settings.arena,
    )
    is_huge = settings.arena in HUGE_ARENAS and has_huge_pages(
        settings.depth * settings.record_bytes
    )
    tell("filling fio's file")
    fio = Fio(
        folder,
        file_bytes=settings.total_bytes,
        block_bytes=settings.record_bytes,
        depth=settings.depth,
        is_uring=reader.is_uring,
        is_huge=is_huge,
    )
    rounds = []
    for count in range(settings.rounds):
        tell(f"round {count + 1} of {settings.rounds}")
        rounds.append(
            Round(
                fio=fio.read(settings.seconds),
                verified=reader.read(settings.seconds, is_verifying=True),
                plain=reader.read(settings.seconds, is_verifying=False),
            )
        )
    fio.close()
    tell("scanning")
    records, scanned_bytes, scan_ms = reader.scan()
    return Outcome(
        is_uring=reader.is_uring,
        is_direct=reader.is_direct,
        is_huge=is_huge,
        rounds=tuple(rounds),
        written=reader.written_bytes_per_s,
        scanned_records=records,
        scanned_bytes=scanned_bytes,
        scan_ms=scan_ms,
    )


def has_huge_pages(wanted_bytes: int) -> bool:
    """Whether fio can have as many as the reader, which has its own by now."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("HugePages_Free:"):
            return int(line.split()[1]) * HUGE_PAGE_BYTES >= wanted_bytes + HUGE_PAGE_BYTES
    return False
