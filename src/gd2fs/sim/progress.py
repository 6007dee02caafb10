"""Progress: a bar on a terminal while something long goes on, and traces opened with one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gd2fs.cli.output import WIDTH_MAX, is_terminal, print_warning, printable, progress_of
from gd2fs.errors import InvalidRequest
from gd2fs.sim.made import PREFIX, is_made, made_of, make_trace
from gd2fs.sim.reading import checked_block, read_trace
from gd2fs.sim.trace import Trace

COUNT_MIN = 100_000  # less is over before a bar can be read


@contextmanager
def bar_of(label: str, total: int, *, least: int = COUNT_MIN) -> Iterator[Callable[[int], None]]:
    """Give a function to call with how many are done; draws a bar on a terminal."""
    if total < least or not is_terminal(sys.stderr):
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(label), total=total)
        yield lambda done: bar.update(task, completed=done)


def opened_trace(name: str, block_tokens: int | None = None) -> Trace:
    """A trace from a file, or one that is made. Raises InvalidRequest."""
    if not name.strip():
        raise InvalidRequest("the trace has no name", hint="give a file, or `made:requests=1000`")
    if block_tokens is not None:
        checked_block(block_tokens)
    try:
        return _opened(name, block_tokens)
    except MemoryError as error:
        raise InvalidRequest(
            f"{name} does not fit into memory", hint="take a part of it, or more memory"
        ) from error


def _opened(name: str, block_tokens: int | None) -> Trace:
    if is_made(name):
        return make_trace(made_of(name.removeprefix(PREFIX) if ":" in name else ""))
    path = Path(name)
    size = path.stat().st_size if path.is_file() else None
    with progress_of("reading", size) as advance:
        before = 0

        def report(at: int) -> None:
            nonlocal before
            advance(at - before)
            before = at

        return read_trace(path, block_tokens=block_tokens, report=report, warn=print_warning)


def table_console() -> Console:
    """Where tables go: the standard output; as wide as they are when no person looks."""
    return Console(highlight=False, width=None if is_terminal(sys.stdout) else WIDTH_MAX)
