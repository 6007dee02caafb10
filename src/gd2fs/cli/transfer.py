"""Transfer: `put` and `get`. A put is one call on a mapping, a get moves through two windows."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from gd2fs import Client, FileStat
from gd2fs.cli.output import Miss, format_bytes, print_note, progress_of, pulse_of
from gd2fs.cli.target import ClusterOption, CpOption, Target, TransportOption, parse_target
from gd2fs.config import TIMEOUT_S_MAX
from gd2fs.errors import InvalidRequest, Unavailable

WINDOW_BYTES = 64 << 20  # two of these are all the memory a get takes
WINDOW_TIMEOUT_S = 30.0  # so a link that moves less than 2 MiB/s is called dead
PUT_TIMEOUT_S_MIN = 60.0
PUT_BYTES_PER_S_MIN = 4_000_000  # a slower link is called dead
HOLE = bytes(1 << 20)  # so many zeros, at a multiple of their size, are left out of a local file
STANDARD = "-"

Advance = Callable[[int], None]


class Changed(Unavailable):
    """The file is another one than when its transfer began."""


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("put")(put)
    app.command("get")(get)


def put(
    local: Annotated[str, typer.Argument(metavar="LOCAL", help="A local file, or - for stdin")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="/namespace/name, or a gd2fs:// URI")],
    ttl_s: Annotated[
        int | None, typer.Option("--ttl", metavar="SECONDS", min=1, help="Forget it after so long")
    ] = None,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Store a local file, all of it or nothing. What was under that path before is replaced."""
    target = parse_target(path, cp=cp, cluster=cluster, transport=transport).check_file()
    with _open_source(local) as source, target.open() as client:
        content = _content(source)
        _check_room(client, target, len(content))
        timeout_s = max(PUT_TIMEOUT_S_MIN, len(content) / PUT_BYTES_PER_S_MIN)
        with pulse_of(f"put {target.path}", len(content)):
            client.put(target.path, content, ttl_s=ttl_s, timeout_s=min(timeout_s, TIMEOUT_S_MAX))
    print_note(f"{len(content)} bytes to {target.path}")


def get(
    path: Annotated[str, typer.Argument(metavar="PATH", help="/namespace/name, or a gd2fs:// URI")],
    local: Annotated[str, typer.Argument(metavar="LOCAL", help="A local file, or - for stdout")],
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Fetch a file. LOCAL appears whole or not at all."""
    target = parse_target(path, cp=cp, cluster=cluster, transport=transport).check_file()
    if local == STANDARD and sys.stdout is None:
        raise InvalidRequest("standard output is closed", hint="redirect it, or name a file")
    with target.open() as client:
        try:
            size = _fetch(client, target, local)
        except Changed:
            if local == STANDARD:  # a part of it is gone already
                raise
            size = _fetch(client, target, local)
    print_note(f"{size} bytes to {local}")


def stat_or_fail(client: Client, target: Target) -> FileStat:
    """Return what the cluster knows of a path, or raise when there is no such file."""
    facts = client.stat(target.path)
    if facts is None:
        raise InvalidRequest(
            f"no such file: {target.path}", hint=f"list with `gd2fs ls {_parent(target.path)}`"
        )
    return facts


def _parent(path: str) -> str:
    return path.rsplit("/", 1)[0] + "/"


# ---- put -----------------------------------------------------------------------------------------


def _open_source(local: str) -> BinaryIO:
    if local != STANDARD:
        return open(local, "rb", buffering=0)
    if sys.stdin is None:
        raise InvalidRequest("standard input is closed", hint="redirect it, or name a file")
    return open(os.dup(sys.stdin.fileno()), "rb", buffering=0)


def _content(source: BinaryIO) -> mmap.mmap | bytes:
    """All bytes of ``source``, from its start where it has one."""
    facts = os.fstat(source.fileno())
    if stat.S_ISREG(facts.st_mode) and facts.st_size:
        with contextlib.suppress(OSError):  # not every file system has mappings
            return mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    with _copied(source) as copy:
        size = os.fstat(copy.fileno()).st_size
        return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def _check_room(client: Client, target: Target, size: int) -> None:
    """Refuse what all nodes together cannot hold: they would make room for it until the end."""
    if size < WINDOW_BYTES:
        return
    nodes = client.ping()
    arena_bytes = sum(node.arena_bytes for node in nodes)
    if size > arena_bytes and all(node.state != "gone" for node in nodes):
        raise InvalidRequest(
            f"put {target.path}: {format_bytes(size)} are more than the "
            f"{format_bytes(arena_bytes)} of all nodes together",
            hint="store it in parts, or give the nodes more memory",
        )


@contextlib.contextmanager
def _copied(source: BinaryIO) -> Iterator[BinaryIO]:
    """A copy of ``source`` in a file without a name. Its mapping keeps it when it is closed."""
    buffer = memoryview(bytearray(WINDOW_BYTES))
    try:
        with tempfile.TemporaryFile(buffering=0) as copy:
            while count := source.readinto(buffer):  # type: ignore[attr-defined]
                _write_all(copy, buffer[:count])
            yield copy
    except OSError as error:
        raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from error


def _write_all(sink: BinaryIO | _SparseFile, part: memoryview) -> None:
    while part:
        part = part[sink.write(part) :]


# ---- get -----------------------------------------------------------------------------------------


def _fetch(client: Client, target: Target, local: str) -> int:
    """Copy the file of one moment to ``local``; its bytes. Raises Changed when there was none."""
    facts = stat_or_fail(client, target)
    with progress_of(f"get {target.path}", facts.size) as advance:
        if local == STANDARD:
            _download(client, target, facts, sys.stdout.buffer, advance)
            sys.stdout.buffer.flush()
        else:
            with _whole_file(local, target) as sink:
                _download(client, target, facts, sink, advance)
    return facts.size


def _download(
    client: Client, target: Target, facts: FileStat, sink: BinaryIO | _SparseFile, advance: Advance
) -> None:
    """Copy the file to ``sink``; a window is written out while the next one is received."""
    window_bytes = max(1, min(WINDOW_BYTES, facts.size))
    buffers = [memoryview(bytearray(window_bytes)) for _ in range(2)]
    with ThreadPoolExecutor(1) as writer:
        written: Future[None] | None = None
        for turn, offset in enumerate(range(0, facts.size, window_bytes)):
            window = buffers[turn % 2][: facts.size - offset]
            _receive(client, target, offset, window)
            if written:
                written.result()
            written = writer.submit(_write_all, sink, window)
            advance(len(window))
        if written:
            written.result()
    if client.stat(target.path) != facts:
        raise _changed(target)


def _receive(client: Client, target: Target, offset: int, window: memoryview) -> None:
    count = client.read(target.path, offset, window, timeout_s=WINDOW_TIMEOUT_S)
    if count == len(window):
        return
    if count is None and client.stat(target.path) is not None:
        end = offset + len(window)
        raise Miss(target.path, f"bytes {offset} to {end} are evicted, lost or corrupt")
    raise _changed(target)


def _changed(target: Target) -> Changed:
    return Changed(f"{target.path} changed while it was read", hint="get it again")


class _SparseFile:
    """A new file that is written from its start; long runs of zeros take no room in it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes = 0

    def write(self, part: memoryview) -> int:
        """Write a first part of ``part``; its bytes."""
        part = part[: len(HOLE) - self._bytes % len(HOLE)]
        if len(part) == len(HOLE) and bytes(part) == HOLE:
            count = self._file.seek(len(part), os.SEEK_CUR) - self._bytes
        else:
            count = self._file.write(part)
        self._bytes += count
        return count

    def end(self) -> None:
        """A hole at the end belongs to the file too."""
        self._file.truncate(self._bytes)


@contextlib.contextmanager
def _whole_file(local: str, target: Target) -> Iterator[BinaryIO | _SparseFile]:
    """Open a file beside ``local`` and rename it there at the end; devices are written to."""
    try:
        place = _destination(local, target)
        if place.exists() and not place.is_file():
            with open(place, "wb", buffering=0) as device:
                yield device
            return
        part = place.with_name(f".{secrets.token_hex(4)}.part")
        try:
            with open(part, "xb", buffering=0) as sink:
                sparse = _SparseFile(sink)
                yield sparse
                sparse.end()
            os.replace(part, place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, local) from error


def _destination(local: str, target: Target) -> Path:
    place = Path(local)
    if place.is_dir():
        place = place / target.path.rsplit("/", 1)[1]
    return Path(os.path.realpath(place))
