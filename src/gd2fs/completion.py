"""Completion: how Python waits for native calls, in a thread or on an event loop.

What a method does is written once, as steps: a generator that yields how to start a native call
and is sent the finished call. ``run`` drives it in this thread; ``Completions.run`` drives it on
the running loop, where finished calls are announced by the client's descriptor. No thread pool.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from gd2fs import _core
from gd2fs.errors import Closed

T = TypeVar("T")
Start: TypeAlias = "Callable[..., _core.Call]"  # called with `cookie`, see _core.pyi
Steps: TypeAlias = "Generator[Start, _core.Call, T]"

FINISHED_MAX = 1024  # taken from the client at once, so that a loop gets its turn between


class Deadline:
    """The end of a method that may make several native calls."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s

    def left_ms(self) -> int:
        """Milliseconds left, at least 1: the call then ends as expired."""
        return max(1, round((self._end - time.monotonic()) * 1e3))


def run(steps: Steps[T]) -> T:
    """Drive ``steps`` in this thread; the GIL is free while a call runs."""
    finished: _core.Call | None = None
    while True:
        try:
            start = steps.send(finished)  # type: ignore[arg-type]
        except StopIteration as stop:
            return stop.value
        finished = start(cookie=_core.COOKIE_WAITED)
        finished.wait()


@dataclass(slots=True)
class _Awaited:
    """A call that some loop waits for. The call keeps the buffers."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    call: _core.Call | None = None


class Completions:
    """Announced calls of one client, awaited on any number of loops.

    Every loop with calls under way watches the client's descriptor. Whichever wakes first takes
    all finished calls and hands those of other loops over to them.
    """

    def __init__(self, core: _core.Client) -> None:
        self._core = core
        # Our own copy: no loop may watch a number that was closed and belongs to something else.
        self._descriptor = os.dup(core.fileno())
        self._cookies = itertools.count(1)
        # Guards: the three below. Never held while a call starts or a future is resolved.
        self._lock = threading.Lock()
        self._awaited: dict[int, _Awaited] = {}
        self._watching: dict[asyncio.AbstractEventLoop, int] = {}
        self._is_closed = False

    def close(self) -> None:
        """Wake all who still wait, once the native client is closed and its calls are done."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            left = list(self._awaited.values())
            is_watched = bool(self._watching)
        for awaited in left:
            _resolve_elsewhere(awaited)
        if not is_watched:
            os.close(self._descriptor)

    def __del__(self) -> None:
        # No loop watches any more, or it would hold this object.
        if not getattr(self, "_is_closed", True):
            os.close(self._descriptor)

    async def run(self, steps: Steps[T]) -> T:
        """Drive ``steps`` on the running loop.

        When the task is cancelled, the call under way is cancelled too, and awaited before
        CancelledError goes on: no buffer is touched afterwards.
        """
        finished: _core.Call | None = None
        while True:
            try:
                start = steps.send(finished)  # type: ignore[arg-type]
            except StopIteration as stop:
                return stop.value
            finished = await self._await_call(start)

    async def _await_call(self, start: Start) -> _core.Call:
        loop = asyncio.get_running_loop()
        cookie = next(self._cookies)
        awaited = _Awaited(loop, loop.create_future())
        self._watch(loop, cookie, awaited)
        try:
            awaited.call = call = start(cookie=cookie)
            try:
                await awaited.future
            except asyncio.CancelledError:
                call.cancel()
                await self._outlast(awaited)
                raise
            call.wait()  # it is over: this gives the buffers back
            return call
        finally:
            self._unwatch(loop, cookie)

    async def _outlast(self, awaited: _Awaited) -> None:
        """Wait for the end of a cancelled call, whatever else happens to this task."""
        assert awaited.call is not None
        while not awaited.call.is_done():
            awaited.future = awaited.loop.create_future()
            try:
                await asyncio.wait([awaited.future], timeout=1.0)
            except asyncio.CancelledError:
                continue
        awaited.call.wait()

    def _watch(self, loop: asyncio.AbstractEventLoop, cookie: int, awaited: _Awaited) -> None:
        with self._lock:
            if self._is_closed:
                raise Closed("the client is closed", hint="make a new client")
            self._awaited[cookie] = awaited
            count = self._watching.get(loop, 0)
            self._watching[loop] = count + 1
        if count == 0:
            loop.add_reader(self._descriptor, self._take_finished)

    def _unwatch(self, loop: asyncio.AbstractEventLoop, cookie: int) -> None:
        with self._lock:
            del self._awaited[cookie]
            count = self._watching[loop] - 1
            self._watching[loop] = count
            if not count:
                del self._watching[loop]
            is_last = self._is_closed and not self._watching
        if not count and not loop.is_closed():
            loop.remove_reader(self._descriptor)
        if is_last:
            os.close(self._descriptor)

    def _take_finished(self) -> None:
        here = asyncio.get_running_loop()
        for cookie in self._core.finished(FINISHED_MAX):
            with self._lock:
                awaited = self._awaited.get(cookie)
            if awaited is None:
                continue
            if awaited.loop is here:
                _resolve(awaited)
            else:
                _resolve_elsewhere(awaited)


def _resolve(awaited: _Awaited) -> None:
    if not awaited.future.done():
        awaited.future.set_result(None)


def _resolve_elsewhere(awaited: _Awaited) -> None:
    try:
        awaited.loop.call_soon_threadsafe(_resolve, awaited)
    except RuntimeError:
        return  # that loop is closed: nobody waits any more
