"""Registered memory: what nodes may reach by one-sided transfers, kept in place until then."""

from __future__ import annotations

import ctypes
import logging
import threading
from typing import TYPE_CHECKING, Any

from gd2fs import _core
from gd2fs.buffers import is_address
from gd2fs.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from gd2fs.buffers import Target

log = logging.getLogger(__name__)


class RegisteredMemory:
    """Of one client. Thread-safe."""

    def __init__(self, core: _core.Client, *, is_wanted: bool) -> None:
        """``is_wanted``: memory of the host that cannot be registered is an error; else it is told
        in the log, as is memory of a GPU that nothing reaches straight."""
        self._core = core
        self._is_wanted = is_wanted
        self._lock = threading.Lock()  # Guards: _held. Never held while registering.
        self._held: dict[tuple[int, int], list[Any]] = {}  # by where it is, once for each `add`
        self._is_told = False  # why bytes of GPUs bounce

    def add(self, buffer: Target) -> None:
        """See ``Client.register``."""
        place, holder = _place_of(buffer)
        try:
            self._core.register_memory(*place)
        except (InvalidRequest, Unavailable) as error:
            is_device = bool(place[1]) and _core.is_device_memory(*place)
            if is_device:
                self._tell_why_it_bounces(str(error))
            elif self._is_wanted or not place[1]:
                raise
            else:
                log.warning("its bytes go through the stream: %s", error)
            return
        if lack := self._core.direct_lack(*place):
            self._tell_why_it_bounces(lack)
        with self._lock:
            self._held.setdefault(place, []).append(holder)

    def _tell_why_it_bounces(self, why: str) -> None:
        if not self._is_told:
            log.warning("bytes of GPUs pass through memory of the host: %s", why)
        self._is_told = True

    def drop(self, buffer: Target) -> bool:
        """See ``Client.deregister``."""
        place, _ = _place_of(buffer)
        with self._lock:
            if place not in self._held:
                return False
            holders = self._held[place]
            last = holders.pop()  # kept until nobody reaches it
            if not holders:
                del self._held[place]
        was_registered = self._core.deregister_memory(*place)
        del last
        return was_registered

    def clear(self) -> None:
        """Let the buffers go: the client has ended."""
        with self._lock:
            self._held.clear()


def _place_of(buffer: Target) -> tuple[tuple[int, int], Any]:
    """Address and length, and what holds the memory there: nothing of ours if it is an address."""
    if is_address(buffer):
        address, length = buffer  # type: ignore[misc]
        return (address, length), None
    try:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if not view.nbytes:
            raise InvalidRequest("no memory to register", hint="give a buffer with bytes")
        first = ctypes.c_char.from_buffer(view)
    except (TypeError, ValueError, BufferError) as cause:
        raise InvalidRequest(
            "only contiguous, writable memory can be registered", hint="pass a bytearray, an array"
        ) from cause
    return (ctypes.addressof(first), view.nbytes), view
