"""Transfer: `put` and `get`. A file of any size moves through two windows of memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from gd2fs import Client, FileStat
from gd2fs.cli.output import Miss, print_note, progress_of
from gd2fs.cli.target import ClusterOption, CpOption, Target, parse_target
from gd2fs.errors import GD2FSError, InvalidRequest, Unavailable

WINDOW_BYTES = 64 << 20  # two of these are all the memory a transfer takes
WINDOW_TIMEOUT_S = 30.0  # so a link that moves less than 2 MiB/s is called dead
STANDARD = "-"

Advance = Callable[[int], None]


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
) -> None:
    """Store a local file. What was under that path before is replaced."""
    target = parse_target(path, cp=cp, cluster=cluster).check_file()
    with _open_source(local) as source, target.open() as client:
        size = _regular_bytes(source)
        with progress_of(f"put {target.path}", size) as advance:
            moved = _upload(client, target, source, ttl_s=ttl_s, advance=advance)
    print_note(f"{moved} bytes to {target.path}")


def get(
    path: Annotated[str, typer.Argument(metavar="PATH", help="/namespace/name, or a gd2fs:// URI")],
    local: Annotated[str, typer.Argument(metavar="LOCAL", help="A local file, or - for stdout")],
    cp: CpOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Fetch a file. LOCAL appears whole or not at all."""
    target = parse_target(path, cp=cp, cluster=cluster).check_file()
    with target.open() as client:
        facts = stat_or_fail(client, target)
        with progress_of(f"get {target.path}", facts.size) as advance:
            if local == STANDARD:
                _download(client, target, facts, sys.stdout.buffer, advance)
                sys.stdout.buffer.flush()
                return
            with _whole_file(_destination(local, target)) as sink:
                _download(client, target, facts, sink, advance)
    print_note(f"{facts.size} bytes to {local}")


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
    if local == STANDARD:
        return open(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    return open(local, "rb", buffering=0)


def _regular_bytes(source: BinaryIO) -> int | None:
    facts = os.fstat(source.fileno())
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None


def _upload(
    client: Client, target: Target, source: BinaryIO, *, ttl_s: int | None, advance: Advance
) -> int:
    windows = _windows(source)
    first = next(windows, memoryview(b""))
    if len(first) < WINDOW_BYTES:
        return client.put(target.path, first, ttl_s=ttl_s, timeout_s=WINDOW_TIMEOUT_S)
    generation = _create_anew(client, target, ttl_s)
    offset = 0
    try:
        for window in itertools.chain([first], windows):
            client.write(
                target.path,
                offset,
                window,
                if_generation=generation,
                timeout_s=WINDOW_TIMEOUT_S,
            )
            offset += len(window)
            advance(len(window))
    except BaseException:
        _remove_half(client, target, generation)
        raise
    return offset


def _create_anew(client: Client, target: Target, ttl_s: int | None) -> int:
    client.unlink(target.path)
    return client.create(target.path, ttl_s=ttl_s, if_absent=True).generation


def _remove_half(client: Client, target: Target, generation: int) -> None:
    with contextlib.suppress(GD2FSError):  # half a file is worse than none
        facts = client.stat(target.path)
        if facts and facts.generation == generation:
            client.unlink(target.path)


def _windows(source: BinaryIO) -> Iterator[memoryview]:
    """Yield the source in windows; of a regular file the next one is read meanwhile."""
    size = _regular_bytes(source)
    window_bytes = WINDOW_BYTES if size is None else max(1, min(WINDOW_BYTES, size))
    if size is None:  # a pipe may block for ever: no thread waits on it
        buffer = memoryview(bytearray(window_bytes))
        yield from iter(lambda: _fill(source, buffer), b"")
        return
    buffers = [memoryview(bytearray(window_bytes)) for _ in range(2)]
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(_fill, source, buffers[0])
        for turn in itertools.count(1):
            window = ahead.result()
            if not window:
                return
            ahead = reader.submit(_fill, source, buffers[turn % 2])
            yield window


def _fill(source: BinaryIO, buffer: memoryview) -> memoryview:
    filled = 0
    while filled < len(buffer):
        count = source.readinto(buffer[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return buffer[:filled]


# ---- get -----------------------------------------------------------------------------------------


def _download(
    client: Client, target: Target, facts: FileStat, sink: BinaryIO, advance: Advance
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
            written = writer.submit(_write_out, sink, window)
            advance(len(window))
        if written:
            written.result()
    if facts.size > window_bytes and client.stat(target.path) != facts:
        raise _changed(target)


def _receive(client: Client, target: Target, offset: int, window: memoryview) -> None:
    count = client.read(target.path, offset, window, timeout_s=WINDOW_TIMEOUT_S)
    if count == len(window):
        return
    if count is None and client.stat(target.path) is not None:
        end = offset + len(window)
        raise Miss(target.path, f"bytes {offset} to {end} are evicted, lost or corrupt")
    raise _changed(target)


def _changed(target: Target) -> GD2FSError:
    return Unavailable(f"{target.path} changed while it was read", hint="get it again")


def _write_out(sink: BinaryIO, window: memoryview) -> None:
    while window:
        window = window[sink.write(window) :]


def _destination(local: str, target: Target) -> Path:
    place = Path(local)
    if place.is_dir():
        place = place / target.path.rsplit("/", 1)[1]
    return place.resolve()


@contextlib.contextmanager
def _whole_file(place: Path) -> Iterator[BinaryIO]:
    """Open a file beside ``place`` and rename it there at the end; devices are written to."""
    if place.exists() and not place.is_file():
        with open(place, "wb", buffering=0) as device:
            yield device
        return
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", buffering=0) as sink:
            yield sink
        os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)
