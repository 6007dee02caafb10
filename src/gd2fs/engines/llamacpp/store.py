"""Store: moves the files of conversations between GD2FS and the bounce directory.

Bytes go straight between the mapped file and the store, without a copy in between. Calls block:
the event loop runs them on threads. The store may be away at any time, at the start too.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gd2fs.errors import Corrupt, GD2FSError, Unavailable

RECONNECT_S = 2.0  # a store that could not be reached is left alone for so long
PUT_TRIES = 2


class FileStore(Protocol):
    """What is used of ``gd2fs.Client``."""

    def stat(self, path: str, *, timeout_s: float | None = None) -> Any: ...
    def read(self, path: str, offset: int, into: Any, *, timeout_s: float | None = None) -> Any: ...
    def put(self, path: str, buffers: Any, *, timeout_s: float | None = None) -> int: ...
    def unlink(self, path: str, *, timeout_s: float | None = None) -> bool: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that was copied out of the store."""

    name: str
    size_bytes: int


class ConversationStore:
    """Conversations of one namespace. Thread-safe.

    Args:
        connect: Makes the client; called again after it raised Unavailable.
        namespace: Of all paths.
        timeout_s: Deadline of one fetch or keep.
    """

    def __init__(
        self,
        connect: Callable[[], FileStore],
        *,
        namespace: str,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.namespace = namespace
        self._connect = connect
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()  # Guards: _client and _retry_at; held while connecting.
        self._client: FileStore | None = None
        self._retry_at = float("-inf")

    def open(self) -> FileStore:
        """The client, connecting if there is none.

        Raises:
            InvalidRequest: The configuration is wrong.
            Unavailable: No node could be reached, now or within the last ``RECONNECT_S``.
        """
        with self._lock:
            if self._client is None:
                if self._clock() < self._retry_at:
                    raise Unavailable("the store could not be reached a moment ago")
                self._retry_at = self._clock() + RECONNECT_S
                self._client = self._connect()
            return self._client

    def close(self) -> None:
        """Close the client, if there is one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def fetch(self, names: Sequence[str], file: Path) -> Fetched | None:
        """Copy the first of ``names`` that is there into ``file``; None when none is.

        Raises:
            GD2FSError: The store did not answer. Treat it as a miss.
            OSError: There is no room for the file.
        """
        client = self.open()
        end = self._clock() + self._timeout_s
        for name in names:
            path = self._path(name)
            facts = client.stat(path, timeout_s=self._left_s(end))
            if facts is not None and facts.size > 0:
                with _mapped_new(file, facts.size + 1) as room:
                    count = client.read(path, 0, room, timeout_s=self._left_s(end))
                if count == facts.size:  # one byte more: it was written anew in between
                    os.truncate(file, count)
                    return Fetched(name, count)
        return None

    def keep(self, name: str, file: Path) -> int:
        """Make ``file`` the state of conversation ``name``; its bytes, once they are acknowledged.

        Raises:
            GD2FSError: It was not stored.
            OSError: The file cannot be read.
        """
        end = self._clock() + self._timeout_s
        with _mapped(file) as content:
            for left in reversed(range(PUT_TRIES)):
                try:
                    return self.open().put(self._path(name), content, timeout_s=self._left_s(end))
                except (Unavailable, Corrupt):
                    if not left or self._clock() >= end:
                        raise
        raise AssertionError("every try returns or raises")

    def forget(self, name: str) -> bool:
        """Drop the state of a conversation, if it is there and the store answers."""
        try:
            return self.open().unlink(self._path(name), timeout_s=self._timeout_s)
        except GD2FSError:
            return False  # eviction will find it: nothing looks under this name again

    def _path(self, name: str) -> str:
        return f"/{self.namespace}/{name}"

    def _left_s(self, end: float) -> float:
        left = end - self._clock()
        if left <= 0:
            raise Unavailable(f"the store took longer than {self._timeout_s} s")
        return left


def _mapped_new(file: Path, size: int) -> mmap.mmap:
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        # Reserved now: a write into a mapped hole of a full file system would be a fatal signal.
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _mapped(file: Path) -> mmap.mmap:
    with open(file, "rb") as source:
        return mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
