"""Peer: other stores on the same work, from the same memory, by the same process.

Each is asked in the way that its users would: a client that answers bytes is not made to copy them
once more. What it answers is compared all the same.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from gd2fs.bench.io.case import Case
from gd2fs.bench.io.job import Job, wrong
from gd2fs.bench.io.memory import blank, differ
from gd2fs.bench.io.mooncake import Mooncake
from gd2fs.errors import InvalidRequest, Unavailable

REDIS, HIREDIS, RAW_REDIS = "redis-py", "redis-py+hiredis", "redis-raw"
MOONCAKE = "mooncake"
REDIS_BYTES_MAX = 512 << 20  # of one value
TIMEOUT_S = 120.0
LOOK_BYTES = 4096  # read at once while looking for the end of a line


class Peer(Protocol):
    """A connection to another store."""

    def put(self, keys: Sequence[str], values: Sequence[memoryview]) -> None:
        """Store values, one per key."""

    def get(self, keys: Sequence[str], into: Sequence[memoryview]) -> Sequence[Any]:
        """The values, as buffers: those of ``into``, or what the client made itself."""

    def drop(self, keys: Sequence[str]) -> None:
        """Forget them."""


def find_peers(words: Sequence[str]) -> dict[str, str]:
    """Where each peer is, by name, of `redis://HOST:PORT` and `mooncake`.

    Raises:
        InvalidRequest: A word is neither, or what it needs is not installed.
    """
    found: dict[str, str] = {}
    for word in words:
        if word == MOONCAKE:
            _check_installed("mooncake", "mooncake-transfer-engine-non-cuda")
            found[MOONCAKE] = ""  # the run starts it
            continue
        url = urlsplit(word)
        if url.scheme != "redis" or not url.hostname:
            raise InvalidRequest(f"no peer `{word}`", hint="`redis://HOST:PORT` or `mooncake`")
        _check_installed("redis", "gd2fs[bench]")
        address = f"{url.hostname}:{url.port or 6379}"
        names = [REDIS, HIREDIS] if importlib.util.find_spec("hiredis") else [REDIS]
        found.update(dict.fromkeys([*names, RAW_REDIS], address))
    return found


def peer_pids(peers: Mapping[str, str]) -> list[int]:
    """Processes of peers on this machine, which are no strangers to the run."""
    if RAW_REDIS not in peers or not peers[RAW_REDIS].startswith(("127.", "localhost")):
        return []
    return [RawRedis(peers[RAW_REDIS]).pid()]


class Peers:
    """Connections to peers by name; each made when it is first asked for.

    Args:
        addresses: Where they are.
        memory: All that their jobs read from and write to.
    """

    def __init__(self, addresses: Mapping[str, str], memory: Sequence[memoryview]) -> None:
        self._addresses, self._memory = addresses, memory
        self._peers: dict[str, Peer] = {}

    def job(self, name: str, case: Case, index: int, source: memoryview, into: memoryview) -> Job:
        """The work of ``case`` at this peer."""
        if name not in self._peers:
            self._peers[name] = _MAKERS[name](self._addresses[name], self._memory)
        keys = [f"{name}-{case.op}-{index}-{number}" for number in range(case.count)]
        return PeerJob(self._peers[name], name, case, keys, source, into)


def can_do(name: str, case: Case) -> bool:
    """Whether this peer has such a call, and takes values of that size.

    Other stores have no checks to leave out, and their clients keep one batch in flight. Ours is
    held against them over TCP.
    """
    has_call = case.op in ("read", "write", "get", "put") and case.transport == "tcp"
    is_plain = case.verify and case.depth == 1
    return has_call and is_plain and (name == MOONCAKE or case.bytes < REDIS_BYTES_MAX)


class PeerJob(Job):
    """Puts or gets of one peer."""

    def __init__(
        self,
        peer: Peer,
        name: str,
        case: Case,
        keys: Sequence[str],
        source: memoryview,
        into: memoryview,
    ) -> None:
        self._peer, self._keys, self._into = peer, keys, into[: case.call_bytes]
        self._values, self._targets = _cut(source, case), _cut(into, case)
        self._is_put = case.op in ("write", "put")
        self._found: Sequence[Any] = ()
        self._what = f"{name}: {case.label()}"

    def prepare(self) -> None:
        self._peer.drop(self._keys)
        self._peer.put(self._keys, self._values)

    def before(self) -> None:
        self._found = ()
        if self._is_put:
            self._peer.drop(self._keys)
        else:
            blank(self._into)

    def call(self) -> None:
        if self._is_put:
            self._peer.put(self._keys, self._values)
        else:
            self._found = self._peer.get(self._keys, self._targets)

    def check(self) -> None:
        found = self._peer.get(self._keys, self._targets) if self._is_put else self._found
        for value, wanted in zip(found, self._values, strict=True):
            if value is None or len(value) != len(wanted) or _is_other(value, wanted):
                raise wrong(self._what)

    def finish(self) -> None:
        self._peer.drop(self._keys)


class Redis:
    """redis-py, with the parser that is asked for."""

    def __init__(self, address: str, *, is_native: bool) -> None:
        redis = importlib.import_module("redis")
        parsers = importlib.import_module("redis._parsers")
        host, _, port = address.rpartition(":")
        pool = redis.ConnectionPool(
            host=host,
            port=int(port),
            parser_class=parsers._HiredisParser if is_native else parsers._RESP2Parser,
            socket_timeout=TIMEOUT_S,
            protocol=2,
        )
        self._redis = redis.Redis(connection_pool=pool)

    def put(self, keys: Sequence[str], values: Sequence[memoryview]) -> None:
        if len(keys) == 1:
            self._redis.set(keys[0], values[0])
        else:
            self._redis.mset(dict(zip(keys, values, strict=True)))

    def get(self, keys: Sequence[str], into: Sequence[memoryview]) -> Sequence[Any]:
        return [self._redis.get(keys[0])] if len(keys) == 1 else self._redis.mget(keys)

    def drop(self, keys: Sequence[str]) -> None:
        self._redis.delete(*keys)


class RawRedis:
    """Redis's protocol from and into memory that is there: the least that a client can do."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        except OSError as error:
            raise Unavailable(f"no Redis at {address}: {error}", hint="start it first") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left = b""  # read already, not yet used

    def put(self, keys: Sequence[str], values: Sequence[memoryview]) -> None:
        self._socket.sendall(b"*%d\r\n" % (1 + 2 * len(keys)) + _bulk(b"MSET"))
        for key, value in zip(keys, values, strict=True):
            self._socket.sendall(_bulk(key.encode()) + b"$%d\r\n" % len(value))
            self._socket.sendall(value)
            self._socket.sendall(b"\r\n")
        self._expect(b"+OK")

    def get(self, keys: Sequence[str], into: Sequence[memoryview]) -> Sequence[Any]:
        self._ask(b"MGET", *map(str.encode, keys))
        self._expect(b"*%d" % len(keys))
        for target in into:
            self._expect(b"$%d" % len(target))
            self._fill(target)
            self._expect(b"")
        return into

    def drop(self, keys: Sequence[str]) -> None:
        self._ask(b"DEL", *map(str.encode, keys))
        self._line()

    def pid(self) -> int:
        """Of the server's process."""
        self._ask(b"INFO", b"server")
        text = bytearray(int(self._line()[1:]))
        self._fill(memoryview(text))
        self._expect(b"")
        ours = next(line for line in bytes(text).splitlines() if line.startswith(b"process_id:"))
        return int(ours.partition(b":")[2])

    def _ask(self, *words: bytes) -> None:
        self._socket.sendall(b"*%d\r\n" % len(words) + b"".join(map(_bulk, words)))

    def _expect(self, wanted: bytes) -> None:
        line = self._line()
        if line != wanted:
            raise Unavailable(f"Redis answered {line[:80]!r} where {wanted!r} was due")

    def _line(self) -> bytes:
        while b"\r\n" not in self._left:
            self._left += self._receive(LOOK_BYTES)
        line, _, self._left = self._left.partition(b"\r\n")
        return line

    def _fill(self, target: memoryview) -> None:
        head = self._left[: len(target)]
        target[: len(head)] = head
        self._left = self._left[len(head) :]
        at = len(head)
        while at < len(target):
            received = self._socket.recv_into(target[at:])
            if not received:
                raise Unavailable("Redis closed the connection")
            at += received

    def _receive(self, size: int) -> bytes:
        received = self._socket.recv(size)
        if not received:
            raise Unavailable("Redis closed the connection")
        return received


_MAKERS: dict[str, Callable[[str, Sequence[memoryview]], Peer]] = {
    REDIS: lambda address, _: Redis(address, is_native=False),
    HIREDIS: lambda address, _: Redis(address, is_native=True),
    RAW_REDIS: lambda address, _: RawRedis(address),
    MOONCAKE: Mooncake,
}


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _cut(view: memoryview, case: Case) -> list[memoryview]:
    return [view[at * case.bytes : (at + 1) * case.bytes] for at in range(case.count)]


def _is_other(value: Any, wanted: memoryview) -> bool:
    return value != wanted if isinstance(value, bytes) else differ(value, wanted)


def _check_installed(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise InvalidRequest(f"`{module}` is not installed", hint=f"run `pip install '{package}'`")
