"""Buffers: memory that calls read from and write to, without a copy.

A buffer is anything with the buffer protocol (bytes, bytearray, memoryview, mmap, NumPy array),
contiguous, and writable where bytes arrive; or ``(address, length)``, two ints that name memory
of this process, or of a GPU whose driver it has loaded. The caller vouches for that: it is mapped,
writable where bytes arrive, and stays so, and what a GPU makes is there when the call begins;
nothing checks it, and an address that is not mapped ends the process. A call borrows its buffers
until it returns; with await, until the await ends, however it ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from gd2fs.errors import InvalidRequest
from gd2fs.free_memory import free_memory

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    Source: TypeAlias = ReadableBuffer | tuple[int, int]
    Target: TypeAlias = WriteableBuffer | tuple[int, int]
    Sources: TypeAlias = Source | Sequence[Source]
    Targets: TypeAlias = Target | Sequence[Target]
    # Of a batch of pages: for each one buffer, or a list or tuple of those its bytes lie in.
    PageSources: TypeAlias = Sequence[Sources]
    PageTargets: TypeAlias = Sequence[Targets]


BUFFER_BYTES_MAX = 64 << 30  # that we allocate for a caller who did not say how much it may be
UNCHECKED_BYTES_MAX = 64 << 20  # so much is there, or the process is about to end anyway


def new_buffer(what: str, size: int) -> bytearray:
    """``size`` bytes for the answer of a call.

    Raises:
        InvalidRequest: They are more than ``BUFFER_BYTES_MAX``, or than there is memory for.
    """
    if size <= UNCHECKED_BYTES_MAX:
        return bytearray(size)
    free = free_memory()
    bytes_max = BUFFER_BYTES_MAX if free is None else min(BUFFER_BYTES_MAX, free)
    try:
        if size <= bytes_max:
            return bytearray(size)
    except MemoryError:
        pass
    raise InvalidRequest(
        f"{what}: it is {size - 1} bytes, more than the {bytes_max} that memory has for it",
        hint="read it in ranges",
    )


def views_of(buffers: Any) -> list[memoryview]:
    """One buffer or a list of them as flat byte views, in order.

    Raises:
        TypeError, BufferError: Something in it is no contiguous buffer.
    """
    is_single = not isinstance(buffers, list | tuple) or is_address(buffers)
    return [_view_of(buffer) for buffer in ([buffers] if is_single else buffers)]


def page_views_of(pages: Any) -> list[list[memoryview]]:
    """For each page the flat byte views of its buffers, in order.

    Raises:
        TypeError, BufferError: Something in it is no contiguous buffer.
    """
    is_single = not isinstance(pages, list | tuple) or is_address(pages)
    return [views_of(page) for page in ([pages] if is_single else pages)]


def is_address(buffer: Any) -> bool:
    """Whether it names memory by address and length."""
    return (
        isinstance(buffer, tuple)
        and len(buffer) == 2
        and all(isinstance(part, int) for part in buffer)
    )


def _view_of(buffer: Any) -> memoryview:
    if is_address(buffer):
        address, length = buffer
        return memoryview((ctypes.c_char * length).from_address(address)).cast("B")
    return memoryview(buffer).cast("B")
