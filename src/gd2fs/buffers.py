"""Buffers: memory that calls read from and write to, without a copy.

A buffer is anything with the buffer protocol (bytes, bytearray, memoryview, mmap, NumPy array),
contiguous, and writable where bytes arrive; or ``(address, length)``, two ints that name memory
of this process which the caller keeps alive. A call borrows its buffers until it returns; with
await, until the await ends, however it ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    Source: TypeAlias = ReadableBuffer | tuple[int, int]
    Target: TypeAlias = WriteableBuffer | tuple[int, int]
    Sources: TypeAlias = Source | Sequence[Source]
    Targets: TypeAlias = Target | Sequence[Target]


def views_of(buffers: Any) -> list[memoryview]:
    """One buffer or a list of them as flat byte views, in order.

    Raises:
        TypeError, BufferError: Something in it is no contiguous buffer.
    """
    is_single = not isinstance(buffers, list | tuple) or _is_address(buffers)
    return [_view_of(buffer) for buffer in ([buffers] if is_single else buffers)]


def _is_address(buffer: Any) -> bool:
    return (
        isinstance(buffer, tuple)
        and len(buffer) == 2
        and all(isinstance(part, int) for part in buffer)
    )


def _view_of(buffer: Any) -> memoryview:
    if _is_address(buffer):
        address, length = buffer
        return memoryview((ctypes.c_char * length).from_address(address)).cast("B")
    return memoryview(buffer).cast("B")
