"""Memory: what a measured call reads from and writes to, and whether the right bytes arrived.

Huge pages where the machine gives them, touched before anything is measured. Its content never
repeats at a distance that anything is cut at, so bytes in a wrong place are seen.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Sequence

HUGE_BYTES = 2 << 20
PERIOD_BYTES = (1 << 20) + 7  # a prime: no two blocks that start at multiples of 512 are alike
SPOT_BYTES = 4096  # a byte of each is looked at after every call, all of them after some
BLANK = 0

_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Memory:
    """``size`` bytes of this process, all of them there."""

    def __init__(self, size: int) -> None:
        self._mapping = mmap.mmap(
            -1, _round_up(size, HUGE_BYTES) + HUGE_BYTES, flags=mmap.MAP_PRIVATE
        )
        self._mapping.madvise(mmap.MADV_HUGEPAGE)
        start = -address_of(memoryview(self._mapping)) % HUGE_BYTES
        self.view = memoryview(self._mapping)[start : start + size]
        _touch(self.view)

    def parts(self, count: int, size: int) -> list[memoryview]:
        """``count`` parts of ``size`` bytes each, back to back."""
        return [self.view[at * size : (at + 1) * size] for at in range(count)]


def fill(view: memoryview, seed: int) -> None:
    """Write the pattern of ``seed`` over all of ``view``."""
    tile = random.Random(seed).randbytes(PERIOD_BYTES).replace(b"\0", b"\1")
    for at in range(0, len(view), PERIOD_BYTES):
        part = view[at : at + PERIOD_BYTES]
        part[:] = tile[: len(part)]


def blank(view: memoryview) -> None:
    """Spoil a byte of every page, so that an old answer cannot pass for a new one."""
    spots = view[::SPOT_BYTES]
    spots[:] = bytes(len(spots))


def spots_differ(left: memoryview, right: memoryview) -> bool:
    """Whether the bytes that ``blank`` spoils differ between two views of one length."""
    return left[::SPOT_BYTES].tobytes() != right[::SPOT_BYTES].tobytes()


def differ(left: memoryview, right: memoryview) -> bool:
    """Whether any byte differs between two views of one length."""
    same = _libc.memcmp(address_of(left), address_of(right), len(left))
    return len(left) != len(right) or same != 0


def address_of(view: memoryview) -> int:
    """Where it lies. It must be writable."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def joined(keys: Sequence[bytes]) -> bytearray:
    """Keys back to back."""
    return bytearray(b"".join(keys))


def _touch(view: memoryview) -> None:
    view[::SPOT_BYTES] = bytes(len(range(0, len(view), SPOT_BYTES)))


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step
