"""Top: a live view of the cluster in a terminal, over the nodes' own protocol."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from gd2fs import Client
from gd2fs.cli.output import WIDTH_MAX, is_terminal, print_json
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.cli.top_screen import SORTS, View, plain, screen
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.overview import ClusterWatch, Overview

INTERVAL_S_MIN = 0.2
INTERVAL_S_MAX = 30.0  # beyond, differences of counts say nothing about now
ONCE_S = 0.5  # between the two looks of which one view is made
PAGE_LINES = 10
SCROLLS = {
    "\x1b[A": -1,
    "\x1b[B": 1,
    "k": -1,
    "j": 1,
    "\x1b[5~": -PAGE_LINES,
    "\x1b[6~": PAGE_LINES,
}
KEY_BYTES_MAX = 64


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("top")(top)


def top(
    interval_s: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="Between two looks")
    ] = 2.0,
    sort: Annotated[
        str, typer.Option(metavar="COLUMN", help=f"Order of the nodes: {', '.join(SORTS)}")
    ] = "name",
    is_once: Annotated[bool, typer.Option("--once", help="Print one view, and end")] = False,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Watch the cluster: nodes, fill, throughput, hits, namespaces, moves.

    Keys: q quits, s sorts by the next column, p pauses, arrows scroll. Without a terminal, and with
    --once or --json, it prints one view: rates are then of half a second.
    """
    if sort not in SORTS:
        raise InvalidRequest(f"no column `{sort}`", hint=", ".join(SORTS))
    if not INTERVAL_S_MIN <= interval_s <= INTERVAL_S_MAX:
        raise InvalidRequest(
            f"--interval {interval_s:g}", hint=f"{INTERVAL_S_MIN:g} to {INTERVAL_S_MAX:g} seconds"
        )
    view = View(sort=sort)
    with Client(cp, cluster=cluster, transport=transport) as client:
        watch = ClusterWatch(client)
        if is_once or as_json or not is_terminal(sys.stdout):
            _print_once(watch, view, as_json)
        else:
            _Live(watch, view, interval_s).run()


def _print_once(watch: ClusterWatch, view: View, as_json: bool) -> None:
    watch.look()
    time.sleep(ONCE_S)
    now = watch.look()
    if as_json:
        print_json(now)
        return
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH_MAX
    console.print(plain(now, view, console.width))


class _Live:
    """The view of one terminal: a thread looks, this one draws and reads keys."""

    def __init__(self, watch: ClusterWatch, view: View, interval_s: float) -> None:
        self._watch = watch
        self._view = view
        self._interval_s = interval_s
        self._looks: queue.SimpleQueue[Overview | GD2FSError] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def run(self) -> None:
        """Until `q`."""
        now = self._watch.look()  # what cannot be asked at all is an error of the command
        looker = threading.Thread(target=self._look, name="gd2fs-top", daemon=True)
        console = Console(highlight=False)
        with (
            _keys(),
            _resizes(self._note),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            looker.start()
            try:
                while not self._is_over.is_set():
                    width, height = console.size
                    live.update(screen(now, self._view, width, height), refresh=True)
                    now = self._next(now)
            finally:
                self._is_over.set()
        looker.join()

    def _look(self) -> None:
        while not self._is_over.wait(self._interval_s):
            if self._view.is_paused:
                continue
            try:
                self._looks.put(self._watch.look())
            except GD2FSError as error:
                self._looks.put(error)
            self._note()

    def _next(self, now: Overview) -> Overview:
        """Wait for something to happen; the newest look."""
        ready, _, _ = select.select([self._woken, sys.stdin], [], [])
        if self._woken in ready:
            os.read(self._woken, KEY_BYTES_MAX)
        if sys.stdin in ready:
            self._press(os.read(sys.stdin.fileno(), KEY_BYTES_MAX).decode("ascii", "ignore"), now)
        while not self._looks.empty():
            look = self._looks.get()
            if isinstance(look, GD2FSError):
                self._view.fault = str(look)
            elif not self._view.is_paused:
                now, self._view.fault = look, ""
        return now

    def _press(self, keys: str, now: Overview) -> None:
        if not keys:  # the terminal is gone
            self._is_over.set()
        for key in _split(keys):
            if key in ("q", "Q"):
                self._is_over.set()
            elif key == "s":
                self._view.next_sort()
            elif key == "p":
                self._view.is_paused = not self._view.is_paused
            elif key in SCROLLS:
                self._view.scroll(SCROLLS[key], len(now["nodes"]))

    def _note(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it will wake anyway
            os.write(self._wake, b"x")


def _split(keys: str) -> Iterator[str]:
    while keys:
        special = next((each for each in SCROLLS if keys.startswith(each)), keys[0])
        yield special
        keys = keys[len(special) :]


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Each key is read when it is pressed, and not shown."""
    if not sys.stdin.isatty():
        raise InvalidRequest("keys cannot be read here", hint="use `gd2fs top --once`")
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes(note: Callable[[], None]) -> Iterator[None]:
    """``note`` is called when the terminal gets another size."""
    before = signal.signal(signal.SIGWINCH, lambda *_: note())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
