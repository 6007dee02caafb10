"""Argument: checks what callers pass, and turns it into what the native client takes."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from gd2fs import _core
from gd2fs.errors import InvalidRequest

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
LIST_MAX = 65_536  # names of one listing
NAME_SHOWN_MAX = 200  # letters of a name in a message


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


def refuse_name(what: str, name: str, fault: str) -> None:
    """Raise InvalidRequest where ``name`` has a fault; an empty text is none."""
    if fault:
        raise InvalidRequest(f"{what} `{name[:NAME_SHOWN_MAX]}` {fault}", hint="fix it")


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


def copies(replicas: int | None) -> int:
    """How many copies of a file: 1 to 8, or 0 for as many as its namespace has."""
    if replicas is None:
        return 0
    if whole("replicas", replicas, _core.REPLICAS_MAX) == 0:
        raise InvalidRequest(
            "`replicas` is 0",
            hint=f"leave it out for the namespace's, or give 1 to {_core.REPLICAS_MAX}",
        )
    return int(replicas)


def list_limit(limit: int) -> int:
    """How many names to list: 1 to 65,536. Raises InvalidRequest."""
    if whole("limit", limit, LIST_MAX) == 0:
        raise InvalidRequest("`limit` is 0", hint=f"give 1 to {LIST_MAX}")
    return int(limit)


def chunk_size(chunk_bytes: int | None) -> int:
    """A chunk size as the wire takes it: 0 is the default one. Raises InvalidRequest."""
    if chunk_bytes is None:
        return 0
    size = whole("chunk_bytes", chunk_bytes)
    if size % _core.CHUNK_BYTES_MIN or not 0 < size <= _core.CHUNK_BYTES_MAX:
        raise InvalidRequest(
            f"`chunk_bytes` is {size}, not a multiple of {_core.CHUNK_BYTES_MIN} "
            f"up to {_core.CHUNK_BYTES_MAX}",
            hint="give a multiple of 64 KiB, up to 1 GiB, or leave it out for 4 MiB",
        )
    return size


def generation_of(if_generation: int | None) -> int:
    """A generation as the wire takes it: 0 is any. Raises InvalidRequest."""
    if if_generation is None:
        return 0
    if whole("if_generation", if_generation) == 0:
        raise InvalidRequest(
            "`if_generation` is 0, and no file has that one",
            hint="pass `generation` of a `FileStat`, or leave it out",
        )
    return int(if_generation)


def prefix_bytes(prefix: str) -> bytes:
    """A prefix of paths as it travels; its last component may be the start of one.

    Raises:
        InvalidRequest: No path starts so.
    """
    name = name_bytes(prefix)
    parts = name.split(b"/")
    # Completed to the shortest path that starts so: if that breaks a rule, each of them does.
    path = name + (b"x" if parts[-1] in (b"", b".", b"..") else b"")
    path += b"/x" if len(parts) <= 2 else b""
    fault = _core.path_fault(path)
    if fault:
        raise InvalidRequest(
            f"prefix `{prefix}` {fault}", hint="start with `/`, as in `/namespace/na`"
        )
    return name
