"""Board: shows how far a run is, on standard error: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed


class Board:
    """The stages of a run, one under the other. A context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            Elapsed(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> Board:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def stage(self, name: str, total: int) -> Stage:
        """Begin a stage of ``total`` steps."""
        return Stage(self, name, self._progress.add_task(name, total=total, note=""))

    def show(self, task: TaskID, *, steps: int, note: str) -> None:
        """Move a bar on."""
        self._progress.update(task, advance=steps, note=note)

    def say(self, line: str) -> None:
        """One line, where there are no bars."""
        if not self._console.is_terminal:
            self._console.print(line, markup=False, soft_wrap=True)


class Stage:
    """One stage. A context manager; it is done when the context ends without an error."""

    def __init__(self, board: Board, name: str, task: TaskID) -> None:
        self._board = board
        self._name = name
        self._task = task
        self._start_s = time.monotonic()
        self._note = ""

    def __enter__(self) -> Stage:
        self._board.say(f"{self._name} …")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            seconds = time.monotonic() - self._start_s
            self._board.say(f"{self._name}: done in {seconds:.0f} s  {self._note}".rstrip())

    def step(self, note: str = "") -> None:
        """One step is done; ``note`` says what is known by now."""
        self._note = note
        self._board.show(self._task, steps=1, note=note)
