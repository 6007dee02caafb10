"""NVMe: where a node keeps what its memory has no room for, and how. Checked, never opened here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gd2fs.errors import InvalidRequest
from gd2fs.sizes import format_bytes

PLACES_MAX = 16  # as core/limits.h says
PLACE_BYTES_MIN = 8 << 20
RATE_MIN = 1 << 20
WRITE_KINDS = ("back", "through")
KEEP_KINDS = ("inclusive", "exclusive")


@dataclass(frozen=True, slots=True)
class NvmePlace:
    """A folder, and how many bytes of its file system it may take; 0: nearly all that is free."""

    folder: str
    bytes_max: int = 0


@dataclass(frozen=True, slots=True)
class Nvme:
    """The tier below memory, checked.

    Attributes:
        places: Folders, best one on each device. Empty: there is no such tier.
        write_bytes_per_s: What is written takes at most so much; 0: no limit.
        write: ``back``: ahead of eviction. ``through``: as soon as it can be read.
        keep: ``inclusive``: the copy on disk stays when its bytes are in memory again.
            ``exclusive``: it goes.
    """

    places: tuple[NvmePlace, ...] = ()
    write_bytes_per_s: int = 0
    write: str = "back"
    keep: str = "inclusive"

    def __post_init__(self) -> None:
        if len(self.places) > PLACES_MAX:
            raise InvalidRequest(
                f"{len(self.places)} folders for NVMe", hint=f"`--nvme` takes {PLACES_MAX} at most"
            )
        folders = [os.path.realpath(place.folder) for place in self.places]
        if len(set(folders)) < len(folders):
            raise InvalidRequest("a folder is named twice", hint="`--nvme` takes each once")
        for place in self.places:
            if 0 < place.bytes_max < PLACE_BYTES_MIN:
                raise InvalidRequest(
                    f"{place.bytes_max} bytes are too few for `{place.folder}`",
                    hint=f"`--nvme FOLDER:{PLACE_BYTES_MIN >> 20}MiB` is the least",
                )
        check_rate(self.write_bytes_per_s)
        _check("--nvme-write", self.write, WRITE_KINDS)
        _check("--nvme-keep", self.keep, KEEP_KINDS)

    def sized(self) -> list[tuple[str, int]]:
        """Every folder with its bytes, as the core takes them; makes folders that are not there.

        Raises:
            InvalidRequest: A folder can neither be found nor made.
        """
        return [(each.folder, each.bytes_max or _free_share(each.folder)) for each in self.places]


def check_rate(write_bytes_per_s: int) -> None:
    """Raise InvalidRequest where writes would crawl."""
    if write_bytes_per_s != 0 and write_bytes_per_s < RATE_MIN:
        raise InvalidRequest(
            f"writes of {write_bytes_per_s} bytes a second are too slow",
            hint=f"`nvme-rate` is {RATE_MIN >> 20}MiB or more, or 0: no limit",
        )


def parse_places(text: str, parse_bytes: Callable[[str], int]) -> tuple[NvmePlace, ...]:
    """Read ``FOLDER[:SIZE],…``.

    Raises:
        InvalidRequest: A folder is empty, or a size is none.
    """
    return tuple(_parse_place(part.strip(), parse_bytes) for part in text.split(","))


def nvme_facts(counts: Mapping[str, int]) -> dict[str, int]:
    """For the line of a node that is ready; empty without a disk."""
    if not counts["nvme_bytes"]:
        return {}
    return {"nvme": counts["nvme_bytes"], "nvme_usable": counts["nvme_usable_bytes"]}


def disk_line(counts: Mapping[str, int]) -> str:
    """What the disks of a node that has started can hold, and do, for people."""
    size, usable = counts["nvme_bytes"], counts["nvme_usable_bytes"]
    return (
        f"nvme: {format_bytes(usable)} of {format_bytes(size)} can hold data at a time, the rest "
        f"is room to write in; {counts['nvme_records']} records are there"
    )


def _parse_place(text: str, parse_bytes: Callable[[str], int]) -> NvmePlace:
    folder, colon, size = text.rpartition(":")
    if not colon:
        folder, size = text, ""
    if not folder:
        raise InvalidRequest(
            f"`{text}` names no folder", hint="for example `--nvme /mnt/nvme0/gd2fs:900GiB`"
        )
    bytes_max = parse_bytes(size) if colon else 0
    if colon and bytes_max == 0:
        raise InvalidRequest(
            f"`{text}` gives the folder no bytes", hint="leave `:SIZE` out for nine tenths of it"
        )
    return NvmePlace(folder, bytes_max)


def _free_share(folder: str) -> int:
    """Nine tenths of what is free there, with what an earlier run has taken already."""
    try:
        os.makedirs(folder, exist_ok=True)
        system = os.statvfs(folder)
        own = sum(entry.stat().st_blocks * 512 for entry in os.scandir(folder) if entry.is_file())
    except OSError as error:
        raise InvalidRequest(
            f"cannot use `--nvme {folder}`: {error.strerror or error}",
            hint="name a folder that this user may write to",
        ) from error
    return max((system.f_bavail * system.f_frsize + own) // 10 * 9, PLACE_BYTES_MIN)


def _check(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidRequest(f"`{option}` is `{value}`", hint=f"one of {', '.join(allowed)}")
