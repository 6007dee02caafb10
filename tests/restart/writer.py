"""A writer that goes on until its node is gone, and notes what it is told."""

from __future__ import annotations

import random
import threading

from restart.told import GONE, Told

from gd2fs import Client
from gd2fs.errors import GD2FSError, Unavailable

NAMES = 12  # of each writer: all writers' contents fit the arena together
BYTES_MAX = 200_000


class Writer:
    """One thread and one client. Names are its own."""

    def __init__(self, number: int, cp: str, cluster: str) -> None:
        self.told = Told()
        self.count = 0  # acknowledged writes
        self._number = number
        self._cp = cp
        self._cluster = cluster
        self._random = random.Random(number)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin, or go on."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of its node."""
        self._thread.join()

    def check(self, client: Client) -> list[str]:
        """Read everything; what is wrong."""
        return [fault for name in self.told.names() for fault in self._check(client, name)]

    def _check(self, client: Client, name: str) -> list[str]:
        if name.startswith("/"):
            return self.told.faults(name, bytes(client.get(name) or GONE))
        room = bytearray(BYTES_MAX)
        size = client.pages("kill").get([name], [room]).sizes[0]
        return self.told.faults(name, bytes(room[: size or 0]))

    def _run(self) -> None:
        with Client(self._cp, cluster=self._cluster, io_threads=1, timeout_s=5) as client:
            while True:
                kind = self._random.choice([self._page, self._put, self._write, self._unlink])
                try:
                    kind(client, self._random.randrange(NAMES))
                except GD2FSError:
                    return
                self.count += 1

    def _content(self) -> bytes:
        return self._random.randbytes(1 + self._random.randrange(BYTES_MAX))

    def _page(self, client: Client, at: int) -> None:
        name = f"{self._number}-{at}"
        pages = client.pages("kill")
        if self.told.now(name) != GONE:
            self.told.begin(name, GONE)
            pages.drop([name])
            self.told.end(name)
            return
        content = self._content()
        self.told.begin(name, content)
        if list(pages.put([name], [content])) != [True]:
            raise Unavailable(f"{name} is not stored")
        self.told.end(name)

    def _path(self, at: int) -> str:
        return f"/kill/{self._number}-{at}"

    def _put(self, client: Client, at: int) -> None:
        content = self._content()
        self.told.begin(self._path(at), content)
        client.put(self._path(at), content, chunk_bytes=1 << 16)
        self.told.end(self._path(at))

    def _write(self, client: Client, at: int) -> None:
        """In the middle of one block, so that it is seen as a whole."""
        before = self.told.now(self._path(at))
        if before == GONE:
            return self._put(client, at)
        patch = self._random.randbytes(1 + self._random.randrange(min(len(before), 1 << 16)))
        after = patch + before[len(patch) :]
        self.told.begin(self._path(at), after)
        client.write(self._path(at), 0, patch)
        self.told.end(self._path(at))
        return None

    def _unlink(self, client: Client, at: int) -> None:
        if self._random.randrange(4):
            return self._write(client, at)
        self.told.begin(self._path(at), GONE)
        client.unlink(self._path(at))
        self.told.end(self._path(at))
        return None
