"""Run: a file is read under TLS and without, in turn with what OpenSSL alone seals."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gd2fs import Client, _core
from gd2fs.bench.board import Board
from gd2fs.errors import Unavailable
from gd2fs.testing.certificates import Certificates
from gd2fs.testing.cluster import Cluster

RATIO_TARGET = 0.60
CIPHERS = ("aes-128-gcm", "aes-256-gcm")
ARENA_FACTOR = 4  # of the file: what a node may fill at a time is a share of it
ARENA_BYTES_MIN = 256 << 20
PATH = "/bench/file"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured."""

    file_bytes: int
    streams: int
    threads: int
    arena: str
    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Round:
    """Bytes per second of one after the other."""

    sealed: dict[str, float]
    read: float
    written: float
    plain_read: float

    @property
    def ceiling(self) -> float:
        """The quickest cipher's."""
        return max(self.sealed.values())

    @property
    def ratio(self) -> float:
        return self.read / self.ceiling


@dataclass(frozen=True, slots=True)
class Outcome:
    """All figures of one run."""

    settings: Settings
    rounds: tuple[Round, ...]
    handshakes_per_s: float

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: reads under TLS to what one core seals."""
        return statistics.median(each.ratio for each in self.rounds)

    def median_of(self, name: str) -> float:
        return statistics.median(getattr(each, name) for each in self.rounds)

    def sealed(self, cipher: str) -> float:
        return statistics.median(each.sealed[cipher] for each in self.rounds)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"ratio": self.ratio}


def run_tls(settings: Settings, board: Board) -> Outcome:
    """Measure with two nodes of our own on loopback, one with TLS and one without.

    Raises:
        InvalidRequest: There is no `openssl` command to make certificates with.
        Unavailable: A node did not start, or a read came to nothing.
    """
    with tempfile.TemporaryDirectory(prefix="gd2fs-bench-") as name:
        folder = Path(name)
        certificates = Certificates(folder)
        certificates.add("node")
        files = [certificates.path(f"node.{end}") for end in ("crt", "key")]
        ca = certificates.path("ca.crt")
        options = ("--tls-cert", files[0], "--tls-key", files[1], "--tls-ca", ca)
        with (
            _node(settings, folder / "tls", options) as tls,
            _node(settings, folder / "plain", ()) as plain,
            _client(settings, tls, ca) as secured,
            _client(settings, plain, "") as open_client,
        ):
            return _measure(settings, board, secured, open_client, (tls, ca))


def _node(settings: Settings, folder: Path, options: tuple[str, ...]) -> Cluster:
    folder.mkdir()
    memory = max(ARENA_FACTOR * settings.file_bytes, ARENA_BYTES_MIN)
    threads = ("--threads", str(settings.threads))
    return Cluster(1, str(memory), str(folder), settings.arena, options=(*threads, *options))


def _client(settings: Settings, cluster: Cluster, ca: str) -> Client:
    return Client(
        cluster.cp,
        cluster=cluster.name,
        transport="tcp",
        streams=settings.streams,
        io_threads=settings.streams,
        tls_ca=ca,
        timeout_s=30,
    )


def _measure(
    settings: Settings, board: Board, secured: Client, plain: Client, at: tuple[Cluster, str]
) -> Outcome:
    source = bytearray(range(256)) * (settings.file_bytes // 256 + 1)
    source = source[: settings.file_bytes]
    into = bytearray(settings.file_bytes)
    for client in (secured, plain):
        client.put(PATH, source)
        _read(client, into, 0.0)
        if into != source:
            raise Unavailable("what was read is not what was written", hint="look at the logs")
    rounds = []
    with board.stage("rounds", settings.rounds) as stage:
        for _ in range(settings.rounds):
            sealed = {each: _core.seal_rate(each, settings.seconds / 2) for each in CIPHERS}
            read = _read(secured, into, settings.seconds)
            plain_read = _read(plain, into, settings.seconds)
            written = _write(secured, source, settings.seconds)
            rounds.append(Round(sealed, read, written, plain_read))
            stage.step()
    return Outcome(settings, tuple(rounds), _handshakes(*at, settings))


def _read(client: Client, into: bytearray, seconds: float) -> float:
    return _rate(lambda: client.read(PATH, 0, into), len(into), seconds)


def _write(client: Client, source: bytearray, seconds: float) -> float:
    return _rate(lambda: client.put(PATH, source), len(source), seconds)


def _rate(move: Any, size: int, seconds: float) -> float:
    """Bytes per second of the median call, called for so long."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while not times or time.perf_counter() < until:
        start = time.perf_counter()
        if move() != size:
            raise Unavailable("some bytes are gone", hint="give the node more `--memory`")
        times.append(time.perf_counter() - start)
    return size / statistics.median(times)


def _handshakes(cluster: Cluster, ca: str, settings: Settings) -> float:
    """Clients that connect and ask something small, one after the other, in a second."""
    count = 0
    start = time.perf_counter()
    while time.perf_counter() < start + settings.seconds:
        with Client(
            cluster.cp, cluster=cluster.name, transport="tcp", streams=1, io_threads=1, tls_ca=ca
        ) as client:
            client.stat(PATH)
        count += 2  # one asks for the map, the other is its stream
    return count / (time.perf_counter() - start)
