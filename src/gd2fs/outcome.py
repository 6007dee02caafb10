"""Outcome: what a finished native call means: an answer to return, or an error to raise."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import TYPE_CHECKING

from gd2fs.errors import Closed, Corrupt, GD2FSError, InvalidRequest, Unavailable

if TYPE_CHECKING:
    from gd2fs._core import Call


class Status(IntEnum):
    """Status codes, as in core/error.h."""

    OK = 0
    MISS = 1
    HAVE = 2
    RETRY = 3
    STALE_MAP = 4
    CONFLICT = 5
    GONE = 6
    FULL = 7
    CORRUPT = 8
    INVALID = 9
    CANCELLED = 10
    EXPIRED = 11
    DENIED = 12
    FENCED = 13
    UNKNOWN = 14
    UNAVAILABLE = 64


# What is synced is there, or it is known why not.
SYNC_ANSWERS = (Status.OK, Status.MISS, Status.GONE, Status.DENIED)
KEPT_AT = ("", "memory", "disk")  # as core/kept_at.h has it

NODE_ANSWERED = "` answered "  # in the message of a node's answer, as core/call.cc writes it

_LASTING = {
    Status.GONE: "create it first",
    Status.FULL: "store less at once, or give the nodes more memory",
    Status.INVALID: "fix the call",
    Status.DENIED: "check the rights of this client's token",
}
_PASSING = {
    Status.RETRY: "try again in a moment",
    Status.CONFLICT: "another writer was first; read what is there, or try again",
    Status.EXPIRED: "retry, treat it as a miss, or give it a longer `timeout_s`",
    Status.UNKNOWN: "it may or may not have been applied; read what is there, or do it again",
}


def check(call: Call, what: str, answers: Collection[Status] = (Status.OK,)) -> Status:
    """The status of ``call`` when it is one of ``answers``.

    Args:
        call: Finished.
        what: The call and its subject, for the message: "read /ns/file".

    Raises:
        InvalidRequest, Unavailable, Corrupt, Closed: As ``error_of`` says.
    """
    status = Status(call.status)
    if status in answers:
        return status
    message = call.message or status.name.lower()
    # What the client itself finds invalid names no subject; what a node answers does.
    is_told = status is not Status.INVALID or NODE_ANSWERED in message
    raise error_of(status, message if call.message and is_told else f"{what}: {message}")


def error_of(status: Status, message: str) -> GD2FSError:
    """The error that stands for ``status``: whose class says what the caller can do."""
    if status in _LASTING:
        return InvalidRequest(message, hint=_LASTING[status])
    if status is Status.CORRUPT:
        return Corrupt(message, hint="that copy was dropped; send the bytes again")
    if status is Status.CANCELLED:
        return Closed(message, hint="make a new client")
    hint = _PASSING.get(status, "`gd2fs status` shows which nodes answer, and why others do not")
    return Unavailable(message, hint=hint)
