"""Request: one read, write or create under way, and what its status means.

A status is ``error_class << 8 | errno``; 0 is success.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.outcome import Status

if TYPE_CHECKING:
    from gd2fs import _core

ERRNOS = {
    Status.MISS: errno.ENODATA,
    Status.CORRUPT: errno.ENODATA,
    Status.GONE: errno.ENOENT,
    Status.RETRY: errno.EAGAIN,
    Status.STALE_MAP: errno.EAGAIN,
    Status.CONFLICT: errno.EAGAIN,
    Status.FENCED: errno.EAGAIN,
    Status.FULL: errno.ENOSPC,
    Status.INVALID: errno.EINVAL,
    Status.CANCELLED: errno.ECANCELED,
    Status.EXPIRED: errno.ETIMEDOUT,
    Status.DENIED: errno.EACCES,
    Status.UNKNOWN: errno.EIO,
    Status.UNAVAILABLE: errno.EHOSTUNREACH,
}
_CLASSES = {
    errno.ENODATA: "miss",
    errno.ENOENT: "not found",
    errno.EINVAL: "invalid request",
    errno.EACCES: "invalid request",
    errno.ENOSPC: "invalid request",
    errno.ECANCELED: "closed",
}


class Request:
    """One call under way. ``Client.Wait`` returns the very object that the call returned."""

    __slots__ = ("_call", "_is_create", "_refusal")

    def __init__(self, *, is_create: bool = False) -> None:
        self._call: _core.Call | None = None
        self._is_create = is_create
        self._refusal: Status | None = None

    def Status(self) -> int:
        """0 for success, else see ``InspectStatus``. EINPROGRESS while it is under way."""
        if self._refusal is not None:
            return encode_status(self._refusal)
        if self._call is None or not self._call.is_done():
            return errno.EINPROGRESS
        return encode_status(Status(self._call.status))

    def Value(self) -> int:
        """Bytes moved; 0 for a create, on failure and while it is under way."""
        is_moving = not self._is_create and self.Status() == 0
        return self._call.value if is_moving and self._call is not None else 0

    def refuse(self, error: GD2FSError) -> None:
        """It could not be started: ``error`` says why."""
        is_lasting = isinstance(error, InvalidRequest)
        self._refusal = Status.INVALID if is_lasting else Status.UNAVAILABLE

    def __repr__(self) -> str:
        return f"<Request status={self.Status()} value={self.Value()}>"


def encode_status(status: Status) -> int:
    """The published form of one of the wire's status codes."""
    if status in (Status.OK, Status.HAVE):
        return 0
    return int(status) << 8 | ERRNOS[status]


def InspectStatus(status: int) -> tuple[int, str, str, int]:
    """Explain a status: itself, the class of the error, its text, and an errno code (0: none)."""
    code = status & 0xFF
    if status == 0:
        return 0, "ok", "success", 0
    return status, _CLASSES.get(code, "unavailable"), os.strerror(code), code
