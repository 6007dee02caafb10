"""Children: the processes of a run. They end with the run, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from gd2fs.errors import Unavailable

PR_SET_PDEATHSIG = 1  # linux/prctl.h: the child gets a signal when its parent's thread ends
READY_S = 120.0
STOP_S = 15.0
LOG_TAIL_CHARACTERS = 600

_libc = ctypes.CDLL(None)


class Child:
    """One process that prints a line starting with `ready` when it serves.

    Attributes:
        ready_line: That line.
        facts: The `KEY=VALUE` words of it.
    """

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, has_input: bool = False
    ) -> None:
        """Start it. Call from the main thread: the child is killed when this thread ends.

        ``has_input``: it is told things by ``tell``.
        """
        self.name = name
        self.ready_line = ""
        self.facts: dict[str, str] = {}
        self._log = log
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                # Ctrl-C reaches the parent alone, which ends the child. Not a session of its own:
                # the kernel would share the cores among sessions, whatever each has to do.
                process_group=0,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Wait for the `ready` line. Raises Unavailable, with the end of its log, without one."""
        line = self._first_line(timeout_s)
        if not line.startswith("ready"):
            raise Unavailable(f"{self.name} did not get ready: {self.log_tail()}")
        self.ready_line = line
        self.facts = dict(word.split("=", 1) for word in line.split() if "=" in word)

    def tell(self, line: str) -> None:
        """Write a line to its standard input. Raises Unavailable when it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Unavailable(f"{self.name} has ended: {self.log_tail()}") from error

    def hear(self, timeout_s: float) -> str:
        """Its next line. Raises Unavailable, with the end of its log, without one in time."""
        line = self._first_line(timeout_s)
        if not line:
            raise Unavailable(f"{self.name} did not answer: {self.log_tail()}")
        return line

    def kill(self) -> None:
        """End it at once with SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Ask it to end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_end(self, timeout_s: float = STOP_S) -> None:
        """Wait until it has ended; kill it when it takes too long."""
        if self.process.stdin:
            with contextlib.suppress(OSError):  # what was not told yet needs no telling
                self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        if self.process.stdout:
            self.process.stdout.close()

    def has_spoken(self) -> bool:
        """Whether anything was said on its standard error."""
        return self._log.stat().st_size > 0

    def log_tail(self) -> str:
        """The last words of its standard error, on one line."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return " | ".join(text[-LOG_TAIL_CHARACTERS:].split("\n")).strip(" |") or "it said nothing"

    def _first_line(self, timeout_s: float) -> str:
        assert self.process.stdout is not None
        end = time.monotonic() + timeout_s
        while (left := end - time.monotonic()) > 0:
            if select.select([self.process.stdout], [], [], left)[0]:
                return self.process.stdout.readline()
        return ""


class Children:
    """The children of a run, ended together. A context manager."""

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait_end()

    def start(self, name: str, command: Sequence[str], *, has_input: bool = False) -> Child:
        """Start one more; ``wait_ready`` is the caller's."""
        child = Child(name, command, self._log_directory / f"{name}.log", has_input=has_input)
        self._children.append(child)
        return child

    def last_words(self) -> str:
        """What the children last said on standard error, those that have ended first."""
        talkative = sorted(
            (child for child in self._children if child.has_spoken()),
            key=lambda child: child.process.poll() is None,
        )
        return f"{talkative[0].name} said: {talkative[0].log_tail()}" if talkative else ""


def die_with_parent() -> None:
    """Run in a new child: it is killed when the thread that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
