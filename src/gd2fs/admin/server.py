"""Server: answers at one address from one thread. No bytes of the cache pass through it."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack

from starlette.types import ASGIApp

from gd2fs.admin.door import STOP_S, BoundedServer, Bounds, Door
from gd2fs.admin.refusals import Refusals
from gd2fs.errors import InvalidRequest
from gd2fs.membership import parse_address
from gd2fs.tls import NO_TLS, AdminContext, Tls

BOUNDS = Bounds()


class AdminServer:
    """Answers until ``stop``."""

    def __init__(
        self,
        app: ASGIApp,
        address: str,
        tls: Tls = NO_TLS,
        *,
        refusals: Refusals | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        """Bind ``address`` and serve; over HTTPS when ``tls`` has a certificate.

        Raises:
            InvalidRequest: The address cannot be bound, or the certificate not be used.
        """
        secured = AdminContext(tls) if tls.cert else None
        self.scheme = "https" if secured else "http"
        self.refusals = refusals or Refusals()
        door = _bound(address, bounds, self.refusals)
        host, port = door.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._door = door
        self._server = BoundedServer(app, door, secured.context if secured else None)
        self._thread = threading.Thread(target=self._run, name="gd2fs-admin", daemon=True)
        self._thread.start()

    @property
    def connections(self) -> int:
        """How many are open now."""
        return self._door.open_count

    def stop(self) -> None:
        """End the thread and free the address."""
        self._server.should_exit = True
        self._thread.join(2 * STOP_S)
        self._door.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._door])


def _bound(address: str, bounds: Bounds, refusals: Refusals) -> Door:
    host, port = parse_address(address)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with ExitStack() as undo:
        door = undo.enter_context(Door(family, bounds, refusals))
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((host.strip("[]"), port))
            door.listen()
        except OSError as error:
            raise InvalidRequest(
                f"cannot serve `--admin {address}`: {error.strerror or error}",
                hint="take another port, or port 0 for a free one",
            ) from error
        undo.pop_all()
        return door
