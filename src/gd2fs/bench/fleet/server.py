"""Server: a real engine's server as a child process, waited for until it is healthy.

A server writes to a log of its own, and ends with the context, or with this process however that
ends. Engines start processes of their own; all are one group, which is what is ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from gd2fs.bench.children import die_with_parent
from gd2fs.errors import Unavailable

HEALTHY_S = 600.0  # imports dominate, and several servers may start on a few busy cores
HEALTH_S = 30.0  # of one check: SGLang answers a request for it, which takes up to 20 s
STOP_S = 15.0
ANSWER_S = 120.0  # of one request; what is about time sets its own
POLL_S = 0.2
LOG_CHARACTERS_MAX = 1 << 20
WHY_CHARACTERS_MAX = 500
ERROR = re.compile(r"\b[A-Za-z]*(Error|Exception): \S")


class ServerFault(Unavailable):
    """A server did not get healthy, with the end of its log."""


@dataclass
class EngineServer:
    """One server of an engine. A context manager.

    Args:
        name: Of the server, and of its log.
        command: The program and its arguments.
        url: Where it listens, without a path.
        folder: Where its log goes, and where it runs.
        variables: Environment beside this process' own.
        health: Path that answers 200 when it serves.
    """

    name: str
    command: Sequence[str]
    url: str
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    health: str = "/health"
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def __enter__(self) -> EngineServer:
        try:
            self.launch()
            self.wait_healthy()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def launch(self) -> None:
        """Start it and do not wait: several get ready side by side. From the main thread only."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                cwd=self.folder,
                env=_rooted({**os.environ, **self.variables}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=die_with_parent,
            )

    def wait_healthy(self, timeout_s: float = HEALTHY_S) -> None:
        """Wait until it serves. Raises ServerFault when it ends or takes too long."""
        end = time.monotonic() + timeout_s
        while not self.is_healthy():
            if self.process is None or self.process.poll() is not None:
                raise ServerFault(f"{self.name} has ended: {self.why()}", hint=self._where())
            if time.monotonic() > end:
                raise ServerFault(
                    f"{self.name} is not healthy yet: {self.why()}", hint=self._where()
                )
            time.sleep(POLL_S)

    def is_healthy(self) -> bool:
        """Whether it answers its health check with 200."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url + self.health, timeout=HEALTH_S).status_code == 200
        return False

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """POST JSON; the answer, whatever its status."""
        return self.request("POST", path, json=body, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        options.setdefault("timeout", ANSWER_S)
        return httpx.request(method, self.url + path, **options)

    def terminate(self) -> None:
        """Ask it to end; ``stop`` waits until it has."""
        if self.process is not None:
            self._signal(self.process, signal.SIGTERM)

    def stop(self) -> None:
        """End it and all that it has started."""
        process = self.process
        if process is None:
            return
        self.terminate()
        self.process = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        self._signal(process, signal.SIGKILL)  # what of the group is left
        process.wait()

    def why(self) -> str:
        """The first error that its log names, which others follow from; else its last line."""
        lines = [line.strip() for line in self.log_tail().splitlines()]
        errors = [line for line in lines if ERROR.search(line)]
        found = errors[:1] or [line for line in lines if line][-1:]
        return found[0][-WHY_CHARACTERS_MAX:] if found else "it said nothing"

    def _where(self) -> str:
        return f"its log is {self.log}"

    def log_tail(self) -> str:
        """The end of its log."""
        if not self.log.is_file():
            return "it said nothing"
        return self.log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS_MAX:]

    def _signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _rooted(environment: dict[str, str]) -> dict[str, str]:
    """With folders of modules that are found from wherever the server runs."""
    if path := environment.get("PYTHONPATH"):
        folders = [os.path.abspath(each) for each in path.split(os.pathsep) if each]
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment
