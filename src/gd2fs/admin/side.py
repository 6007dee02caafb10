"""Side: all that one node serves over HTTP, and the clients of its cluster that it asks with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gd2fs.admin.advice_desk import AdviceDesk
from gd2fs.admin.app import make_app
from gd2fs.admin.guard import AdminGuard
from gd2fs.admin.refusals import Refusals
from gd2fs.admin.server import AdminServer
from gd2fs.admin.trace_route import trace_routes
from gd2fs.admin.whatif_route import whatif_routes
from gd2fs.client import Client
from gd2fs.dashboard import Page, dashboard_routes
from gd2fs.errors import InvalidRequest
from gd2fs.overview.desk import IdlingWatch, OverviewDesk
from gd2fs.tls import Tls
from gd2fs.tokens import KnownToken
from gd2fs.tracing import Tracer


class AdminSide:
    """Answers from its making until ``stop``.

    Args:
        address: ``ADDR:PORT`` to serve at.
        tls: Over HTTPS, where it has a certificate.
        known: The tokens that are valid.
        name: Of the node.
        tracer: Makes spans of what is asked. Stopped with this.
        connect: Gives a client of the whole cluster, to be closed by who asked.
        collect: Gives the node's collector, which also tells what is refused here.
        why_not_ready: Empty while the node serves.

    Raises:
        InvalidRequest: The address cannot be bound, or the certificate not be used.
    """

    def __init__(
        self,
        address: str,
        *,
        tls: Tls,
        known: Sequence[KnownToken],
        name: str,
        tracer: Tracer,
        connect: Callable[[], Client],
        collect: Callable[[Refusals], Any],
        why_not_ready: Callable[[], str],
    ) -> None:
        refusals = Refusals()
        self._guard = AdminGuard(known)
        self._tracer = tracer
        self._advice = AdviceDesk(connect)
        self._overview = IdlingWatch(connect, seen_by=name)
        desk = OverviewDesk(self._overview.look)
        app = make_app(
            collect(refusals),
            why_not_ready,
            self._advice,
            self._guard,
            [
                *dashboard_routes(desk, connect, Page.load(), self._guard),
                *trace_routes(connect, self._guard),
                *whatif_routes(connect, self._guard),
            ],
            tracer=tracer,
            refusals=refusals,
        )
        try:
            self._server = AdminServer(app, address, tls, refusals=refusals)
        except InvalidRequest:
            tracer.stop()
            raise
        self.address = self._server.address
        self.url = f"{self._server.scheme}://{self.address}"

    def take_tokens(self, known: Sequence[KnownToken]) -> None:
        """Know these from now on, and no others."""
        self._guard.set(known)

    def stop(self) -> None:
        """End the server, what is under way for it, and the clients. Twice is fine."""
        self._server.stop()
        self._advice.close()
        self._overview.close()
        self._tracer.stop()
