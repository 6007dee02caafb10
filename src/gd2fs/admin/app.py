"""App: the paths of the admin side, and what an error is over HTTP.

GET  /healthz    200 while the process lives
GET  /readyz     200 while the node serves, else 503 and why not
GET  /metrics    the counts
GET  /v1/caller  whose token the request shows, and what it may
POST /v1/advise  what shall be in memory, in the whole cluster (see advice_desk)
POST /v1/trace   records what is asked (see trace_route)
GET  /v1/whatif  what the cluster would find with more memory (see whatif_route)
and the dashboard with what it asks for (see dashboard/routes)

All but the first two, and the page of the dashboard itself, take a token where the node has some
(see guard). What goes wrong is JSON, ``{"error": ..., "hint": ...}``, and counted (see refusals).
Parameters that a path below /v1 does not know are refused. The others have one answer, whatever
stands there: a scraper's configuration, or a number against caches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gd2fs import metrics
from gd2fs.admin.advice_desk import AdviceDesk, advice_routes
from gd2fs.admin.body import EndedEarly, TooLong
from gd2fs.admin.guard import AdminGuard, NotAllowed, NotProven, caller_of, visible_to
from gd2fs.admin.refusals import Refusals
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.tracing import TracedApp, Tracer


def make_app(
    collector: metrics.NodeCollector,
    why_not_ready: Callable[[], str],
    desk: AdviceDesk,
    guard: AdminGuard,
    more: Sequence[Route] = (),
    *,
    tracer: Tracer | None = None,
    refusals: Refusals | None = None,
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

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", guard.needs("read", show_metrics, everywhere=False, parameters=None)),
        Route("/v1/caller", guard.needs("read", show_caller, everywhere=False)),
        *advice_routes(desk, guard, tracer),
        *more,
    ]
    app = Starlette(routes=routes, exception_handlers=fault_handlers(refusals or Refusals()))
    app.add_middleware(TracedApp, tracer=tracer, paths=[each.path for each in routes])
    return app


def show_caller(request: Request) -> Response:
    """``token``: its name, empty on a node without; ``right``: ``read``, ``write``, ``admin`` or
    ``cluster``; ``namespaces``: where, none: everywhere."""
    caller = caller_of(request)
    return JSONResponse(
        {"token": caller.name, "right": caller.right, "namespaces": list(caller.namespaces)}
    )


def fault_handlers(refusals: Refusals) -> dict[Any, Any]:
    """What becomes of what routes raise. Whoever is refused is counted."""

    async def not_proven(_: Request, fault: NotProven) -> Response:
        refusals.add(fault.reason)
        return _fault(401, str(fault), "", {"www-authenticate": "Bearer"})

    async def not_allowed(_: Request, fault: NotAllowed) -> Response:
        refusals.add("no_right")
        return _fault(403, str(fault))

    async def invalid(_: Request, fault: InvalidRequest) -> Response:
        if not isinstance(fault, EndedEarly):  # who ended it has counted why
            refusals.add("bad_request")
        return _fault(413 if isinstance(fault, TooLong) else 400, str(fault), fault.hint)

    async def unavailable(_: Request, fault: GD2FSError) -> Response:
        return _fault(503, str(fault), fault.hint)

    async def unknown(request: Request, fault: HTTPException) -> Response:
        refusals.add("bad_request")
        text = f"{request.method} {request.scope['path']}: {fault.detail.lower()}"
        return _fault(fault.status_code, text, "", dict(fault.headers or {}))

    return {
        NotProven: not_proven,
        NotAllowed: not_allowed,
        InvalidRequest: invalid,
        GD2FSError: unavailable,
        HTTPException: unknown,
    }


def _fault(
    status: int, error: str, hint: str = "", headers: dict[str, str] | None = None
) -> Response:
    return JSONResponse({"error": error, "hint": hint}, status_code=status, headers=headers)
