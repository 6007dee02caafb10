"""Sizes: bytes as people write them."""

from __future__ import annotations

import re

from gd2fs.errors import InvalidRequest

SIZE_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}  # powers of two, with or without `B`, `iB`
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
SIZE_END = 1 << 63  # the first one that the core cannot count


def parse_bytes(text: str) -> int:
    """Read a size: ``8GiB``, ``512M`` and ``64MB`` all count in powers of 1024.

    Raises:
        InvalidRequest: It is not a number with a known unit, or 8 EiB or more.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", text.strip().upper(), re.ASCII)
    if not match:
        raise InvalidRequest(f"`{text}` is not a size", hint="for example `8GiB`, `512M` or `64MB`")
    size = float(match[1]) * (1 << SIZE_UNITS[match[2]])
    if size >= SIZE_END:
        raise InvalidRequest(f"`{text}` is more than any machine has", hint="at most some TiB")
    return int(size)


def format_size(size: int) -> str | int:
    """The same size with the largest unit of which it is a whole number; without one, a number."""
    for unit in ("T", "G", "M", "K"):
        if size and size % (1 << SIZE_UNITS[unit]) == 0:
            return f"{size >> SIZE_UNITS[unit]}{unit}iB"
    return size


def format_bytes(count: float) -> str:
    """For people: ``1536`` is ``1.5 KiB``; whole numbers have no fraction."""
    value = float(count)
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
