"""Memory: registered pieces of this process, and scatter lists over them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gd2fs import _core
from pygd2fs.request import Request

if TYPE_CHECKING:
    from gd2fs import _core

UINT64_MAX = 2**64 - 1
MAPS = Path("/proc/self/maps")  # of this process, sorted: `START-END rwxp ...`


class IOMEM:
    """A registered range. Made by ``Client.RegIOMEM``; the caller keeps the memory alive."""

    def __init__(self, address: int, length: int) -> None:
        self.address = address
        self.length = length
        self.is_registered = True
        self.users: set[Request] = set()  # under way
        self.known_to: list[_core.Client] = []  # whose nodes may reach it by one-sided transfers

    def covers(self, address: int, length: int) -> bool:
        """Whether the range lies inside, with no part left over."""
        end = address + length
        return self.address <= address and length >= 0 and end <= self.address + self.length


class SGE:
    """One element of a scatter list: a piece of registered memory."""

    __slots__ = ("address", "iomem", "length")

    def __init__(self, address: int, length: int, iomem: IOMEM) -> None:
        self.address = address
        self.length = length
        self.iomem = iomem

    @property
    def is_registered(self) -> bool:
        """Whether all of it lies in registered memory."""
        iomem = self.iomem
        return (
            isinstance(iomem, IOMEM)
            and iomem.is_registered
            and iomem.covers(self.address, self.length)
        )


def memories_of(sges: Iterable[SGE]) -> list[IOMEM]:
    """Each range that a scatter list uses, once."""
    return list({id(sge.iomem): sge.iomem for sge in sges if sge.iomem}.values())


def is_writable(address: int, length: int) -> bool:
    """Whether all of the range is memory of a GPU, or mapped now, readable and writable."""
    return _core.is_device_memory(address, length) or _is_mapped(address, length)


def _is_mapped(address: int, length: int) -> bool:
    end = address + length
    for line in MAPS.read_text("ascii", "replace").splitlines():
        span, rights = line.split(maxsplit=2)[:2]
        first, stop = (int(number, 16) for number in span.split("-"))
        if stop <= address:
            continue
        if first > address or not rights.startswith("rw"):
            return False
        address = stop
        if address >= end:
            return True
    return False
