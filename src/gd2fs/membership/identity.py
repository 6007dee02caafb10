"""Identity: the name of a node and the number of its start, kept where the next start finds them.

A number is never used twice, even where the clock went back: it tells the versions of records that
two processes of one name have made apart.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import msgspec

from gd2fs.errors import InvalidRequest
from gd2fs.membership.peers import check_node_name

FILE = "node.json"
LOCK = "lock"


class _Stored(msgspec.Struct):
    name: str
    boot: int
    left_s: float = 0.0  # since 1970; 0: it did not leave cleanly


@dataclass(frozen=True, slots=True)
class Identity:
    """``name`` of a node, the number of this start, and the seconds since it left, if known."""

    name: str
    boot: int
    away_s: float | None = None


def boot_now(now_us: int, stored: int = 0) -> int:
    """The number of a start: the time, and in any case larger than the one before."""
    return max(stored + 1, now_us)


class StateDirectory:
    """A folder of one node, and of one process at a time. A context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make it where it is not there, and take it.

        Raises:
            InvalidRequest: It cannot be made, or another process has it.
        """
        self._path = Path(path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self._path / LOCK, "w", encoding="ascii")  # noqa: SIM115
        except OSError as error:
            raise InvalidRequest(
                f"cannot use `--state-dir {path}`: {error.strerror or error}",
                hint="name a folder that this user may write to",
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise InvalidRequest(
                f"another node uses `--state-dir {path}`", hint="give every node its own"
            ) from error

    def start(self, name: str | None) -> Identity:
        """Who this node is from now on. ``name``: as it was told, else what is stored, else new.

        Raises:
            InvalidRequest: What is stored cannot be read, or cannot be written.
        """
        now_s = time.time()
        stored = self._read()
        before = stored if stored and name in (None, stored.name) else None
        own_name = name or (before.name if before else _new_name())
        boot = boot_now(int(now_s * 1e6), stored.boot if stored else 0)
        self._write(_Stored(own_name, boot))
        has_left = before is not None and before.left_s > 0
        away_s = max(0.0, now_s - before.left_s) if before and has_left else None
        return Identity(own_name, boot, away_s)

    def leave(self) -> None:
        """Note that the node left now. Nothing where the folder is gone."""
        stored = self._read()
        if stored:
            self._write(_Stored(stored.name, stored.boot, time.time()))

    def close(self) -> None:
        """Let another process have it."""
        self._lock.close()

    def __enter__(self) -> StateDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> _Stored | None:
        path = self._path / FILE
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
            check_node_name(stored.name)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, InvalidRequest) as error:
            raise InvalidRequest(
                f"cannot read {path}: {error}", hint="remove it; the node is a new one then"
            ) from error
        return stored

    def _write(self, stored: _Stored) -> None:
        path = self._path / FILE
        beside = path.with_suffix(".new")
        try:
            with open(beside, "wb") as file:
                file.write(msgspec.json.encode(stored))
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except OSError as error:
            raise InvalidRequest(
                f"cannot write {path}: {error.strerror or error}",
                hint="make room, or change rights",
            ) from error


def _new_name() -> str:
    return check_node_name(f"{socket.gethostname() or 'node'}-{secrets.token_hex(4)}")
