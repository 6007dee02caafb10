"""Output: data to stdout, everything else to stderr, and sizes that people can read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from gd2fs.sizes import format_bytes as format_bytes

PROGRESS_BYTES_MIN = 32 << 20  # shorter transfers end before a bar can be read
WIDTH_MAX = 1000  # of a table that no person looks at


class Miss(Exception):
    """Bytes that the record of a file names are evicted, lost or corrupt."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def print_json(value: object) -> None:
    """Write one JSON document to stdout."""
    print(json.dumps(value, indent=2))


def print_error(message: str, *, hint: str = "") -> None:
    """Write ``error:`` and, when the fix is known, ``hint:`` to stderr, one line each."""
    _print_labelled("error", "bold red", message)
    if hint:
        _print_labelled("hint", "bold cyan", hint)


def print_warning(message: str) -> None:
    """Write one ``warning:`` line to stderr."""
    _print_labelled("warning", "bold yellow", message)


def print_miss(miss: Miss) -> None:
    """Write ``miss: PATH: why`` to stderr."""
    _print_labelled("miss", "bold yellow", str(miss))


def print_note(message: str) -> None:
    """Write one line to stderr for a person; nothing when no person looks."""
    if is_terminal(sys.stderr):
        _stderr().print(Text(printable(message)), soft_wrap=True)


@contextmanager
def whole_lines() -> Iterator[Console]:
    """Give a console for stdout. Where no person looks its lines are not broken up, and have no
    blanks behind them."""
    console = Console(highlight=False)
    if console.is_terminal:
        yield console
        return
    console.width = WIDTH_MAX
    with console.capture() as captured:
        yield console
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a person looks at ``stream``; None is one that was closed before our start."""
    return stream is not None and stream.isatty()


def printable(text: str) -> str:
    """``text`` with what a terminal would obey or hide written as `ls -b` does: `\\n`, `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def printable_name(name: str) -> str:
    """As ``printable``, for one name: its own backslashes are doubled."""
    return printable(name.replace("\\", "\\\\"))


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, see `name_text`
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


@contextmanager
def progress_of(label: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Give a function to call with every count of bytes that moved; draws a bar on a terminal."""
    is_short = total_bytes is not None and total_bytes < PROGRESS_BYTES_MIN
    if is_short or not is_terminal(sys.stderr):
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=_stderr(), transient=True) as bar:
        task = bar.add_task(printable(label), total=total_bytes)
        yield lambda count: bar.advance(task, count)


@contextmanager
def count_of(label: str) -> Iterator[Callable[[int], None]]:
    """Give a function to call with how many are left; draws a bar from the most to none."""
    if not is_terminal(sys.stderr):
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[left]} left", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_stderr(), transient=True) as bar:
        task = bar.add_task(printable(label), total=None, left="?")
        most = 0

        def show(left: int) -> None:
            nonlocal most
            most = max(most, left)
            bar.update(task, total=most or None, completed=most - left, left=left)

        yield show


@contextmanager
def pulse_of(label: str, total_bytes: int) -> Iterator[None]:
    """Show on a terminal that something long goes on that cannot tell how far it is."""
    if total_bytes < PROGRESS_BYTES_MIN or not is_terminal(sys.stderr):
        yield
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_stderr(), transient=True) as bar:
        bar.add_task(printable(f"{label}, {format_bytes(total_bytes)}"), total=None)
        yield


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)


def _print_labelled(label: str, style: str, message: str) -> None:
    line = Text.assemble((f"{label}: ", style), printable(message))
    _stderr().print(line, soft_wrap=True)
