"""Overview desk: the cluster as this node sees it, for all who look over HTTP.

However many look, the cluster is asked once a second at most, and not at all while nobody looks.
"""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from starlette.concurrency import run_in_threadpool

from gd2fs.client import Client
from gd2fs.errors import Closed
from gd2fs.overview.watch import ClusterWatch, Overview

FRESH_S = 1.0
IDLE_S = 60.0  # without a look the client and its streams go
GZIP_LEVEL = 1  # a thousand nodes are half a megabyte of numbers; more effort gains little
Look = Callable[[], Overview]


@dataclass(frozen=True, slots=True)
class Seen:
    """One look, encoded once."""

    at_s: float
    plain: bytes
    zipped: bytes


class OverviewDesk:
    """Keeps the last look for ``FRESH_S``. Asked on the event loop; looks in a thread."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._seen: Seen | None = None
        self._task: asyncio.Task[Seen] | None = None

    async def seen(self) -> Seen:
        """The last look, or a new one when that is old; those who come meanwhile share it.

        Raises:
            GD2FSError: The cluster could not be asked.
        """
        if self._seen and time.monotonic() - self._seen.at_s < FRESH_S:
            return self._seen
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(run_in_threadpool(self._make))
        self._seen = await asyncio.shield(self._task)
        return self._seen

    def _make(self) -> Seen:
        plain = msgspec.json.encode(self._look())
        return Seen(time.monotonic(), plain, gzip.compress(plain, GZIP_LEVEL))


class IdlingWatch:
    """Looks through a client that is made with the first look, and closed when nobody looks."""

    def __init__(self, connect: Callable[[], Client], *, seen_by: str) -> None:
        self._connect = connect
        self._seen_by = seen_by
        self._lock = threading.Lock()  # Guards: all below. Held while the cluster is asked.
        self._client: Client | None = None
        self._watch: ClusterWatch | None = None
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def look(self) -> Overview:
        """As ``ClusterWatch.look``. Raises Closed after ``close``."""
        with self._lock:
            if self._is_closed:
                raise Closed("the node is stopping", hint="look through another node")
            self._await_idleness()
            if self._watch is None:
                self._client = self._connect()
                self._watch = ClusterWatch(self._client, seen_by=self._seen_by)
            return self._watch.look()

    def close(self) -> None:
        """End the client. There are no looks any more."""
        self._is_closed = True
        client = self._client
        if client:
            client.close()  # ends a look under way, which has the lock
        with self._lock:
            self._end()

    def _await_idleness(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE_S, self._rest)
        self._timer.daemon = True
        self._timer.start()

    def _rest(self) -> None:
        with self._lock:
            if threading.current_thread() is self._timer:  # else somebody has just looked
                self._end()

    def _end(self) -> None:
        if self._timer:
            self._timer.cancel()
        client, self._client, self._watch, self._timer = self._client, None, None, None
        if client:
            client.close()
