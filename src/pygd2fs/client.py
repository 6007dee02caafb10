"""Client: reads and writes as requests, handed out by ``Wait`` or awaited on an event loop.

Requests for ``Wait`` and those that are awaited run on native clients of their own, so neither
side can take the other's completions, and ``GetFd`` speaks of ``Wait``'s alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from gd2fs.argument import name_bytes, whole
from gd2fs.client import connect
from gd2fs.completion import Completions, Start, Steps
from gd2fs.config import check_memthreads, client_config
from gd2fs.errors import Closed, GD2FSError, InvalidRequest
from gd2fs.fork import abandon, close_in_children, leak
from pygd2fs.memory import IOMEM, SGE, UINT64_MAX, is_writable, memories_of
from pygd2fs.request import Request

if TYPE_CHECKING:
    from gd2fs import _core

Bind: TypeAlias = "Callable[[_core.Client], Start]"  # a call without its client

FINISHED_MAX = 1024  # requests that one Wait returns
DEREGISTER_S = 60.0  # more than any deadline: requests end by themselves before


class Client:
    """A client of the cluster ``cluster``. Thread-safe.

    Not for use across a fork: in the child ``RegIOMEM``, ``Create``, ``Read`` and ``Write`` return
    None, ``Wait`` returns [], and awaited requests end at once. Make a new client there.

    Args:
        cpaddr: ``gd2fs://HOST:7527,gd2fs://HOST2:7527``; scheme and port may be left out.
        dpaddr: ``tcp://LOCAL_IP,tcp://LOCAL_IP2``: this machine's own addresses to use, all at
            once; ``rdma://LOCAL_IP,...``: and payload goes by RDMA; empty: ``GD2FS_DPADDR``, else
            those of the ``GD2FS_DEVICE_NICS`` NICs that are nearest to the GPU ``GD2FS_DEVICE``,
            else the system's choice.
        cluster: Its name.
        iothreads: Threads that move bytes. Default: ``GD2FS_IOTHREADS``, else 2.
        memthreads: Accepted for compatibility; checksums are made where the bytes are moved.
        streams: Connections to each node, at least one for each address of ``dpaddr``. Default:
            ``GD2FS_STREAMS``, else 2.

    Raises:
        gd2fs.InvalidRequest: A setting is wrong, or the node is of another cluster.
        gd2fs.Unavailable: No node could be reached.
    """

    def __init__(
        self,
        cpaddr: str,
        dpaddr: str,
        cluster: str,
        *,
        iothreads: int | None = None,
        memthreads: int | None = None,
        streams: int | None = None,
    ) -> None:
        self._config = client_config(
            cpaddr, cluster=cluster, dp=dpaddr or None, io_threads=iothreads, streams=streams
        )
        check_memthreads(memthreads)
        self._core = connect(self._config)
        self._cookies = itertools.count(1)
        # Guards: _requests, and of every IOMEM whether it is registered and who uses it. Held while
        # a call starts, which does not block, so that no one meets a request without its call.
        self._lock = threading.Lock()
        self._requests: dict[int, tuple[Request, Sequence[SGE]]] = {}
        self._connecting = threading.Lock()  # Guards: _awaiting, made at the first await.
        # Guards: _iomems, and which native clients know them. Held while memory is pinned.
        self._registering = threading.Lock()
        self._iomems: set[IOMEM] = set()
        self._awaiting: _Awaiting | None = None
        self._is_forked = False  # this is the copy of a child, and its threads are elsewhere
        close_in_children(self)

    def RegIOMEM(self, address: int, length: int) -> IOMEM | None:
        """Register memory of this process or of a GPU; None when not all of it is mapped, writable
        memory.

        The caller keeps it so until it is deregistered. Nodes may reach it by RDMA, where there is
        any.
        """
        if self._is_forked or address <= 0 or length <= 0 or address + length > UINT64_MAX:
            return None
        if not is_writable(address, length):
            return None
        iomem = IOMEM(address, length)
        with self._registering:
            self._iomems.add(iomem)
            for core in (self._core, *([self._awaiting.core] if self._awaiting else [])):
                _introduce(iomem, core)
        return iomem

    def DeregIOMEM(self, iomem: IOMEM) -> None:
        """Refuse new requests on this memory, and wait for those under way to end."""
        end = time.monotonic() + DEREGISTER_S
        with self._lock:
            iomem.is_registered = False
            calls = [request._call for request in iomem.users if request._call]
        if self._is_forked:
            return
        for call in calls:
            call.wait(max(0, round((end - time.monotonic()) * 1e3)))
        with self._registering:
            self._iomems.discard(iomem)
            for core in iomem.known_to:
                core.deregister_memory(iomem.address, iomem.length)
            iomem.known_to.clear()

    def Create(self, path: str, flags: int, mode: int, extra: str) -> Request | None:
        """Start to make an empty file; one that is there stays. ``flags`` to ``extra``: unused.

        Returns:
            The request, or None when it cannot be started: the path cannot be one.
        """
        return self._begin(
            Request(is_create=True), [], lambda core: partial(core.create, name_bytes(path))
        )

    def Read(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int, extra: str
    ) -> Request | None:
        """Start to read one contiguous range into the scatter list, in order.

        Returns:
            The request, or None when it cannot be started: memory that is not registered or
            overlaps, or a path that cannot be one.
        """
        return self._begin(Request(), sges, _reader(path, offset, sges))

    def Write(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int, extra: str
    ) -> Request | None:
        """Start to write one contiguous range of an existing file; otherwise as ``Read``."""
        return self._begin(Request(), sges, _writer(path, offset, sges))

    def Wait(self, timeout_ms: int) -> list[Request]:
        """Requests that have ended since, oldest first, each once.

        Args:
            timeout_ms: -1 blocks until at least one has ended, 0 polls.
        """
        if self._is_forked:
            return []
        end = time.monotonic() + timeout_ms / 1e3
        poll = select.poll()
        poll.register(self._core.fileno(), select.POLLIN)
        while True:
            finished = self._take_finished()
            left_ms = round((end - time.monotonic()) * 1e3)
            if finished or (timeout_ms >= 0 and left_ms <= 0):
                return finished
            poll.poll(left_ms if timeout_ms >= 0 else None)

    def GetFd(self) -> int:
        """A descriptor that is readable while ``Wait`` has something to return."""
        return self._core.fileno()

    async def ReadAsync(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0
    ) -> Request:
        """As ``Read``, awaited on the running loop. One that cannot be started has a status too.

        When the await is cancelled, the request is ended before CancelledError goes on.
        """
        return await self._await_end(sges, _reader(path, offset, sges))

    async def WriteAsync(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0
    ) -> Request:
        """As ``Write``, awaited as ``ReadAsync`` is."""
        return await self._await_end(sges, _writer(path, offset, sges))

    def forget_parent(self) -> None:
        """In a forked child: nothing is under way here, and nothing can be started."""
        self._is_forked = True
        abandon(self._core)
        leak(self._requests)
        self._requests = {}
        if self._awaiting:
            leak(self._awaiting)
            abandon(self._awaiting.core)
        self._awaiting = None
        self._lock = threading.Lock()  # a thread of the parent may have held the old ones
        self._connecting = threading.Lock()
        self._registering = threading.Lock()

    def _begin(self, request: Request, sges: Sequence[SGE], bind: Bind) -> Request | None:
        cookie = next(self._cookies)
        try:
            self._launch(request, sges, partial(bind(self._core), cookie=cookie), cookie)
        except GD2FSError:
            return None
        return request

    def _launch(
        self, request: Request, sges: Sequence[SGE], start: Start, cookie: int = 0
    ) -> _core.Call:
        """Start a call on registered memory; ``cookie`` not 0: for ``Wait``."""
        with self._lock:
            if not all(sge.is_registered for sge in sges):
                raise InvalidRequest("the memory is not registered", hint="call `RegIOMEM` first")
            request._call = call = start()
            for iomem in memories_of(sges):
                iomem.users.add(request)
            if cookie:
                self._requests[cookie] = (request, sges)
        return call

    def _take_finished(self) -> list[Request]:
        requests = []
        for cookie in self._core.finished(FINISHED_MAX):
            with self._lock:
                request, sges = self._requests.pop(cookie)
                _release(request, sges)
            requests.append(request)
        return requests

    async def _await_end(self, sges: Sequence[SGE], bind: Bind) -> Request:
        request = Request()
        try:
            awaiting = self._awaiting
            if awaiting is None:
                loop = asyncio.get_running_loop()
                awaiting = await loop.run_in_executor(None, self._make_awaiting)
            start = bind(awaiting.core)
            await awaiting.completions.run(
                _one_call(lambda cookie: self._launch(request, sges, partial(start, cookie=cookie)))
            )
        except GD2FSError as error:
            request.refuse(error)
        finally:
            with self._lock:
                _release(request, sges)
        return request

    def _make_awaiting(self) -> _Awaiting:
        with self._connecting:
            if self._is_forked:
                raise Closed("the client was made before fork", hint="make a new one in the child")
            if self._awaiting is None:
                core = connect(self._config)
                with self._registering:
                    for iomem in self._iomems:
                        _introduce(iomem, core)
                    self._awaiting = _Awaiting(core, Completions(core))
            return self._awaiting


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """The native client of awaited requests, made at the first of them."""

    core: _core.Client
    completions: Completions


def _introduce(iomem: IOMEM, core: _core.Client) -> None:
    """Register it with a native client; where that fails, its bytes go through the streams."""
    with contextlib.suppress(GD2FSError):
        core.register_memory(iomem.address, iomem.length)
        iomem.known_to.append(core)


def _one_call(start: Start) -> Steps[_core.Call]:
    return (yield start)


def _reader(path: str, offset: int, sges: Sequence[SGE]) -> Bind:
    return lambda core: partial(core.read, name_bytes(path), whole("offset", offset), _pairs(sges))


def _writer(path: str, offset: int, sges: Sequence[SGE]) -> Bind:
    return lambda core: partial(core.write, name_bytes(path), whole("offset", offset), _pairs(sges))


def _pairs(sges: Sequence[SGE]) -> list[tuple[int, int]]:
    return [(sge.address, sge.length) for sge in sges]


def _release(request: Request, sges: Sequence[SGE]) -> None:
    for iomem in memories_of(sges):
        iomem.users.discard(request)
