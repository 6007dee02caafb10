"""Sockets: how those of streams are set, of a client and of a node alike."""

from __future__ import annotations

from collections.abc import Mapping

from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

SOCKET_BUFFER_BYTES = 1 << 20  # larger ones fall out of the processor's cache
SOCKET_BUFFER_BYTES_MIN = 64 << 10
SOCKET_BUFFER_BYTES_MAX = 256 << 20


def check_socket_buffer(size: int) -> int:
    """Return ``size`` when a socket may have buffers of so many bytes. Raises InvalidRequest."""
    if not SOCKET_BUFFER_BYTES_MIN <= size <= SOCKET_BUFFER_BYTES_MAX:
        raise InvalidRequest(
            f"a socket buffer of {size} bytes", hint="give 64KiB to 256MiB, `1MiB` is the default"
        )
    return size


def congestion_of(given: str | None, environment: Mapping[str, str]) -> str:
    """``given``, else ``GD2FS_CONGESTION``; empty: the kernel's cubic or reno."""
    return environment.get("GD2FS_CONGESTION", "") if given is None else given


def socket_buffer_of(given: int | str | None, environment: Mapping[str, str]) -> int:
    """Bytes: ``given``, else ``GD2FS_SOCKET_BUFFER``, else 1 MiB. Raises InvalidRequest."""
    size = environment.get("GD2FS_SOCKET_BUFFER") if given is None else given
    if not size:
        return SOCKET_BUFFER_BYTES if size != 0 else check_socket_buffer(0)
    return parse_bytes(size) if isinstance(size, str) else size
