"""Process: a child inside a namespace, which ends with this process however that ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gd2fs.bench.children import die_with_parent

TESTS = Path(__file__).resolve().parent.parent
READY_S = 30.0
STOP_S = 10.0


class DidNotStart(Exception):
    """A child that ended or said nothing; the text has its last words."""


class Process:
    """One child. Start it from the main thread: it is killed when that thread ends."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        enter: Callable[[], None],
        environment: dict[str, str] | None = None,
    ) -> None:
        def prepare() -> None:
            enter()
            die_with_parent()

        self.name = name
        self.log = log
        self.is_paused = False
        self._spoken = ""
        with open(log, "ab") as errors:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | {"PYTHONPATH": str(TESTS)} | (environment or {}),
                process_group=0,  # Ctrl-C reaches the run alone, which ends its children
                preexec_fn=prepare,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    def is_ready(self) -> bool:
        """Whether it has said `ready`. Raises DidNotStart when it has ended."""
        assert self._child.stdout is not None
        if not self._spoken and select.select([self._child.stdout], [], [], 0)[0]:
            self._spoken = self._child.stdout.readline().decode()
            if not self._spoken.startswith("ready"):
                raise DidNotStart(f"{self.name} did not get ready: {self.last_words()}")
        return bool(self._spoken)

    def wait_ready(self) -> None:
        end = time.monotonic() + READY_S
        while not self.is_ready():
            if time.monotonic() > end:
                raise DidNotStart(f"{self.name} was not ready within {READY_S} s")
            select.select([self._child.stdout], [], [], 0.1)

    def tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line.encode() + b"\n")
        self._child.stdin.flush()

    def signal(self, number: int) -> None:
        if self.is_running:
            self._child.send_signal(number)
            self.is_paused = number == signal.SIGSTOP

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self, timeout_s: float = STOP_S) -> int | None:
        """Its exit status; None when it does not end in time."""
        try:
            status = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe and not pipe.closed:
                pipe.close()
        return status

    def stop(self) -> int | None:
        """End it as an operator would; its exit status, None when it had to be killed."""
        if self.is_paused:
            self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        status = self.wait()
        if status is None:
            self.kill()
        return status

    def last_words(self) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return " | ".join(text[-600:].strip().split("\n")) or "it said nothing"
