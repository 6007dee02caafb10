"""Recorded conversations: what a client and a node said to each other, byte for byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field

PATIENCE_S = 10.0


@dataclass
class Recorder:
    """Passes connections on to a node, and keeps what each side of the first one said."""

    target: tuple[str, int]
    said: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)

    def __enter__(self) -> Recorder:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            near, _ = self._listener.accept()
            far = socket.create_connection(self.target)
            back = threading.Thread(target=_pass, args=(far, near, self.answered), daemon=True)
            back.start()
            _pass(near, far, self.said)


def _pass(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(1 << 16):
            kept += part
            target.sendall(part)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def hear_all(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    heard = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            heard += part
    return bytes(heard)
