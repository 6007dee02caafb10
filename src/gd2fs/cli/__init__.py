"""The command line: `gd2fs`. One file per group of commands; nothing else imports from here.

Signals come first and all else is imported later: from the start on, Ctrl-C ends in one line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

STANDARD_DESCRIPTORS = 3
ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Ended(BaseException):
    """SIGINT or SIGTERM came. No Exception: what is under way must not handle it, only clean up."""

    def __init__(self, number: int) -> None:
        self.word = ENDINGS[signal.Signals(number)]
        self.status = 128 + number
        super().__init__(self.word)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; without arguments, as this process's own."""
    if arguments is not None:
        from gd2fs.cli.app import run

        return run(arguments)
    _on_signals(_leave)
    _occupy_standard_descriptors()
    from gd2fs.cli.app import run

    try:
        _on_signals(_raise)
        return run(sys.argv[1:])
    finally:
        _on_signals(_leave)


def _on_signals(handle: Callable[[int, FrameType | None], object]) -> None:
    for number in ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` and `&` want it
            signal.signal(number, handle)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    ended = Ended(number)
    with contextlib.suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"error: {ended}\n".encode())
    os._exit(ended.status)


def _raise(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough, and cleaning up is not cut short
    raise Ended(number)


def _occupy_standard_descriptors() -> None:
    """Where one is closed, let no file or socket of ours take its number."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor >= STANDARD_DESCRIPTORS:
            os.close(descriptor)
            return


__all__ = ["Ended", "main"]
