"""Proxy: a way to a port of this machine that can be cut and opened again."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType


class Proxy:
    """Passes bytes on while it is open. A context manager."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._lock = threading.Lock()  # Guards: _pairs, _is_open.
        self._pairs: list[socket.socket] = []
        self._is_open = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """End every connection; new ones end at once."""
        with self._lock:
            self._is_open = False
            for each in self._pairs:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            self._pairs.clear()

    def mend(self) -> None:
        """Let connections through again."""
        with self._lock:
            self._is_open = True

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                with self._lock:
                    if not self._is_open:
                        near.close()
                        continue
                    far = socket.create_connection(self._to)
                    self._pairs += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65_536):
            target.sendall(part)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
