"""Admin: the small HTTP side of a node, for probes and for Prometheus. No bytes of the cache.

GET  /healthz    200 while the process lives
GET  /readyz     200 while the node serves, else 503 and why not
GET  /metrics    the counts
POST /v1/advise  what shall be in memory, in the whole cluster (see advice_desk)
and the dashboard with what it asks for (see dashboard/routes)

All but the first two, and the page of the dashboard itself, take a token where the node has some
(see admin_guard).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gd2fs import metrics
from gd2fs.admin_guard import AdminGuard, caller_of, denied, visible_to
from gd2fs.advice_desk import BODY_BYTES_MAX, AdviceDesk, is_allowed, parse_advice
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.membership import parse_address
from gd2fs.tls import NO_TLS, AdminContext, Tls
from gd2fs.tracing import HEADER, TraceContext, TracedApp, Tracer

STOP_S = 1.0  # what an open request gets to end in
BACKLOG = 64


class AdminServer:
    """Answers on one address from one thread, until ``stop``."""

    def __init__(self, app: Starlette, address: str, tls: Tls = NO_TLS) -> None:
        """Bind ``address`` and serve; over HTTPS when ``tls`` has a certificate.

        Raises:
            InvalidRequest: The address cannot be bound, or the certificate not be used.
        """
        secured = AdminContext(tls) if tls.cert else None
        self.scheme = "https" if secured else "http"
        self._socket = _bound(address)
        host, port = self._socket.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=int(STOP_S),
        )
        config.load()
        if secured:
            config.ssl = secured.context
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="gd2fs-admin", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and free the address."""
        self._server.should_exit = True
        self._thread.join(STOP_S)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def make_app(
    collector: metrics.NodeCollector,
    why_not_ready: Callable[[], str],
    desk: AdviceDesk,
    guard: AdminGuard,
    more: Sequence[Route] = (),
    tracer: Tracer | None = None,
) -> Starlette:
    """Build the routes, and ``more``. ``why_not_ready`` is an empty text when the node serves."""
    tracer = tracer or Tracer()

    def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    def readyz(_: Request) -> Response:
        reason = why_not_ready()
        return PlainTextResponse(f"{reason or 'ready'}\n", status_code=503 if reason else 200)

    def show_metrics(request: Request) -> Response:
        seen = visible_to(caller_of(request), collector)
        return Response(metrics.render(seen), media_type=metrics.CONTENT_TYPE)

    async def advise(request: Request) -> Response:
        return await _advise(request, desk, tracer)

    app = Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", guard.needs("read", show_metrics, everywhere=False)),
            Route("/v1/advise", guard.needs("read", advise, everywhere=False), methods=["POST"]),
            *more,
        ]
    )
    app.add_middleware(TracedApp, tracer=tracer)
    return app


async def _advise(request: Request, desk: AdviceDesk, tracer: Tracer) -> Response:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            return _refusal(413, f"more than {BODY_BYTES_MAX} bytes")
    try:
        advice = parse_advice(json.loads(body))
        if not is_allowed(advice, caller_of(request)):
            return denied(caller_of(request))
        asker = TraceContext.parse(request.headers.get(HEADER))
        names = len(advice.paths) + len(advice.keys)
        with tracer.span(f"advice {advice.advice}", **{"gd2fs.names": names}) as own:
            context = own or asker
            trace = context.low_half if context else 0
            answer = await run_in_threadpool(desk.take, advice, trace)
    except (ValueError, RecursionError, InvalidRequest) as error:
        return _refusal(400, f"{error}")
    except GD2FSError as error:
        return _refusal(503, f"{error}")
    return JSONResponse(answer, status_code=200 if advice.wait else 202)


def _refusal(status: int, reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=status)


def _bound(address: str) -> socket.socket:
    host, port = parse_address(address)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with contextlib.ExitStack() as undo:
        bound = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host.strip("[]"), port))
            bound.listen(BACKLOG)
        except OSError as error:
            raise InvalidRequest(
                f"cannot serve `--admin {address}`: {error.strerror or error}",
                hint="take another port, or port 0 for a free one",
            ) from error
        undo.pop_all()
        return bound
