"""Etcd: a real server of one member as a child process on loopback, for tests and the demo.

Its lease may be as short as a second: elections need no time where nobody else can win. It ends
with the context, and with this process however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from gd2fs.bench.children import die_with_parent
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.testing.cluster import free_ports

READY_S = 30.0
STOP_S = 10.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class EtcdCertificates:
    """Paths of PEM files: of the authority, and of the server; clients need one of the authority.

    ``client`` and ``client_key``: what a client shows.
    """

    ca: str
    server: str
    server_key: str
    client: str
    client_key: str


@dataclass
class EtcdServer:
    """One etcd with its data in ``directory``. Use as a context manager.

    Args:
        directory: Where its data and its log go.
        certificates: Serve over TLS, and take only clients that have a certificate.
        options: Further options of `etcd`.
    """

    directory: str
    certificates: EtcdCertificates | None = None
    options: Sequence[str] = ()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _peer_port: int = field(default=0, repr=False)
    _health_port: int = field(default=0, repr=False)

    @property
    def endpoint(self) -> str:
        """Where clients connect, `http://127.0.0.1:PORT`."""
        return f"{'https' if self.certificates else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> EtcdServer:
        self.port, self._peer_port, self._health_port = free_ports(3)
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, or again with the data it had, and wait until it has a leader.

        Raises:
            InvalidRequest: There is no `etcd` on this machine.
            Unavailable: It did not get ready.
        """
        program = find_etcd()
        with open(os.path.join(self.directory, "etcd.log"), "ab") as log:
            self.process = subprocess.Popen(
                [program, *self._words()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self._wait_ready()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, by default at once. Its data stays."""
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _words(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._peer_port}"
        words = ["--name", "test", "--data-dir", os.path.join(self.directory, "etcd")]
        words += ["--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", f"test={peer}", "--log-level", "error"]
        words += ["--heartbeat-interval", "20", "--election-timeout", "200"]
        words += ["--listen-metrics-urls", f"http://127.0.0.1:{self._health_port}"]
        if self.certificates:
            words += ["--cert-file", self.certificates.server]
            words += ["--key-file", self.certificates.server_key]
            words += ["--trusted-ca-file", self.certificates.ca, "--client-cert-auth"]
        return [*words, *self.options]

    def _wait_ready(self) -> None:
        url = f"http://127.0.0.1:{self._health_port}/health"
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self.process and self.process.poll() is None:
            try:
                with urllib.request.urlopen(url, timeout=1.0) as answer:
                    if b"true" in answer.read():
                        return
            except OSError:
                pass  # not there yet
            time.sleep(POLL_S)
        raise Unavailable(f"etcd did not get ready: {self._last_words()}")

    def _last_words(self) -> str:
        with open(os.path.join(self.directory, "etcd.log"), encoding="utf-8") as log:
            return " | ".join(log.read()[-600:].split("\n")).strip(" |") or "it said nothing"


def find_etcd() -> str:
    """Path of the program. Raises InvalidRequest where there is none."""
    program = shutil.which("etcd")
    if program is None:
        raise InvalidRequest("there is no `etcd` here", hint="run `apt-get install etcd-server`")
    return program
