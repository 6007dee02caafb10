"""Argument: checks what callers pass, and turns it into what the native client takes."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from gd2fs.errors import InvalidRequest

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
LIST_MAX = 65_536  # names of one listing


def name_bytes(name: str) -> bytes:
    """A path or namespace as it travels: UTF-8, other bytes as ``os.fsencode`` does."""
    if not isinstance(name, str):
        raise InvalidRequest(f"a name is {type(name).__name__}, not str", hint="pass a str")
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as cause:
        raise InvalidRequest(f"{name!r} cannot be written as UTF-8", hint="fix it") from cause


def name_text(name: bytes) -> str:
    """The inverse of ``name_bytes``."""
    return name.decode("utf-8", "surrogateescape")


def whole(what: str, number: SupportsIndex, number_max: int = UINT64_MAX) -> int:
    """``number`` as an int of 0 to ``number_max``. Raises InvalidRequest."""
    try:
        value = operator.index(number)
    except TypeError as cause:
        raise InvalidRequest(
            f"`{what}` is {type(number).__name__}, not an int", hint="pass an int"
        ) from cause
    if not 0 <= value <= number_max:
        raise InvalidRequest(f"`{what}` is {value}", hint=f"give 0 to {number_max}")
    return value


def seconds(ttl_s: int | None) -> int:
    """A time to live as the wire takes it: 0 is none. Raises InvalidRequest."""
    if ttl_s is None:
        return 0
    if whole("ttl_s", ttl_s, UINT32_MAX) == 0:
        raise InvalidRequest("`ttl_s` is 0", hint="leave it out for no end, or give 1 or more")
    return int(ttl_s)


def list_limit(limit: int) -> int:
    """How many names to list: 1 to 65,536. Raises InvalidRequest."""
    if whole("limit", limit, LIST_MAX) == 0:
        raise InvalidRequest("`limit` is 0", hint=f"give 1 to {LIST_MAX}")
    return int(limit)
