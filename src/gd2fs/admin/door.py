"""Door: which connections the admin side takes, and how long they may dawdle.

A socket that is accepted counts for its source and for all until it is closed, whatever becomes of
it: those in the middle of a handshake too. Every wait for the other side has an end: for its
handshake, for its request, for it to take an answer, and for another request after that.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections import Counter
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gd2fs.admin.refusals import Refusals

BACKLOG = 64
STOP_S = 1.0  # what an open request gets to end in


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the connections of one address.

    Attributes:
        connections: Open at the same time.
        connections_per_source: Of one IP address.
        handshake_s: For TLS to come to something.
        request_s: For a whole request to arrive, head and body.
        untaken_s: For an answer, once its reader does not keep up.
        idle_s: After an answer without another request: longer than between two scrapes.
    """

    connections: int = 512
    connections_per_source: int = 128
    handshake_s: float = 5.0
    request_s: float = 10.0
    untaken_s: float = 30.0
    idle_s: int = 20


class Door(socket.socket):
    """A listening socket that lets in as many as ``bounds`` allow. For one event loop."""

    def __init__(self, family: int, bounds: Bounds, refusals: Refusals) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.bounds = bounds
        self.refusals = refusals
        self._open = 0
        self._sources: Counter[str] = Counter()
        self._silent: set[Any] = set()  # addresses of those whom no protocol has heard of yet

    def accept(self) -> tuple[socket.socket, Any]:
        """As any socket. Raises ConnectionAbortedError for one that was too many: it is closed."""
        plain, address = super().accept()
        source = address[0]
        is_full = self._open >= self.bounds.connections
        if is_full or self._sources[source] >= self.bounds.connections_per_source:
            self.refusals.add("too_many")
            plain.close()
            raise ConnectionAbortedError(f"{source} has too many connections")
        self._open += 1
        self._sources[source] += 1
        self._silent.add(address)
        return Visitor(plain, self, address), address

    @property
    def open_count(self) -> int:
        """Connections that are open now."""
        return self._open

    def greet(self, address: Any) -> None:
        """The protocol has heard of the connection from ``address``: TLS stands, where there is."""
        self._silent.discard(address)

    def forget(self, address: Any) -> None:
        """The connection from ``address`` is closed."""
        self._open -= 1
        self._sources[address[0]] -= 1
        if not self._sources[address[0]]:
            del self._sources[address[0]]
        if address in self._silent:
            self._silent.discard(address)
            self.refusals.add("tls_handshake")


class Visitor(socket.socket):
    """An accepted socket, which the door counts until it is closed or forgotten."""

    def __init__(self, plain: socket.socket, door: Door, address: Any) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._forget = weakref.finalize(self, door.forget, address)
        self._forget.atexit = False

    def close(self) -> None:
        """As any socket."""
        super().close()
        self._forget()


class BoundedProtocol(H11Protocol):
    """HTTP whose every wait for the other side has an end."""

    def __init__(self, door: Door, **words: Any) -> None:
        """``words``: as uvicorn makes it."""
        super().__init__(**words)
        self._door = door
        self._waiting: asyncio.TimerHandle | None = None  # for a whole request
        self._untaken: asyncio.TimerHandle | None = None  # for an answer to be taken

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._door.greet(transport.get_extra_info("peername"))
        transport.set_write_buffer_limits(high=1)  # so that whatever is not taken is told
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: once it is whole, nothing is waited for."""
        self._expect_request()
        super().data_received(data)
        if self._is_answering and not self.cycle.more_body:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """From here on uvicorn itself ends what stays idle."""
        self._stop_waiting()
        super().on_response_complete()
        if self._is_answering and self.cycle.more_body:  # the next one had come along
            self._expect_request()

    def pause_writing(self) -> None:
        """The other side does not keep up."""
        super().pause_writing()
        self._untaken = self.loop.call_later(self._door.bounds.untaken_s, self._give_up)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        if self._untaken:
            self._untaken.cancel()
            self._untaken = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._stop_waiting()
        super().connection_lost(exc)
        if self._untaken:
            self._untaken.cancel()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP. Where an answer was begun already there is no room for this one."""
        self._door.refusals.add("bad_request")
        self._stop_waiting()
        if self.cycle is None or self.conn.our_state is h11.IDLE:
            super().send_400_response(msg)
        else:
            self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self._door.bounds.request_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._door.refusals.add("timeout")
        self.transport.abort()


class BoundedServer(uvicorn.Server):
    """Answers whom its door lets in."""

    def __init__(self, app: Any, door: Door, context: Any = None) -> None:
        """``context``: of TLS; None: there is none."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http="h11",
                ws="none",
                log_config=None,
                log_level="error",  # what strangers do is counted
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_keep_alive=door.bounds.idle_s,
                timeout_graceful_shutdown=int(STOP_S),
            )
        )
        self._door = door
        self._context = context

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at the door, in place of what uvicorn would do."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            self._protocol,
            sock=self._door,
            ssl=self._context,
            ssl_handshake_timeout=self._door.bounds.handshake_s if self._context else None,
            backlog=BACKLOG,
        )
        self.servers = [listening]
        self.started = True

    def _protocol(self) -> asyncio.Protocol:
        return BoundedProtocol(
            self._door,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
