"""Routes: the page, what it shows, and what an operator does from it.

GET  /             the page
GET  /v1/overview  the whole cluster as this node sees it: see gd2fs.overview
GET  /v1/config    what nodes are set to; one of them with ?node=NAME
POST /v1/config    {"key": KEY, "value": VALUE, "node": NAME}: change it; value null takes it back,
                   without a node it is changed on all of them
POST /v1/drain     {"node": NAME}: have it hand over all it has, and leave; 202, it has only begun

All but the page, which has nothing of the cluster in it, take a token where the node has some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gd2fs.admin.body import body_of, refuse_other_sites
from gd2fs.admin.guard import AdminGuard, said_in
from gd2fs.client import Client
from gd2fs.dashboard.page import Page
from gd2fs.errors import InvalidRequest
from gd2fs.operating import begin_drain, change_setting, fault_of, settings_in
from gd2fs.overview.desk import OverviewDesk

BODY_BYTES_MAX = 4096
Connect = Callable[[], Client]


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one setting; without a node: of all. A value that is null takes it back."""

    key: str
    value: str | None
    node: str = ""


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which node is to leave."""

    node: str


def dashboard_routes(
    desk: OverviewDesk, connect: Connect, page: Page, guard: AdminGuard
) -> list[Route]:
    """Make them. ``connect`` gives a client of the whole cluster, to be closed by who asked."""

    def show_page(_: Request) -> Response:
        return Response(page.html, media_type="text/html", headers=page.headers)

    async def overview(request: Request) -> Response:
        seen = await desk.seen()
        is_zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"cache-control": "no-store", "vary": "accept-encoding"}
        if is_zipped:
            headers["content-encoding"] = "gzip"
        body = seen.zipped if is_zipped else seen.plain
        return Response(body, media_type="application/json", headers=headers)

    def show_config(request: Request) -> Response:
        with connect() as client:
            return _settings(client, said_in(request)["node"])

    async def change_config(request: Request) -> Response:
        refuse_other_sites(request)
        wanted = await body_of(request, Change, bytes_max=BODY_BYTES_MAX)
        return await run_in_threadpool(_change, connect, wanted)

    async def drain(request: Request) -> Response:
        refuse_other_sites(request)
        wanted = await body_of(request, Drain, bytes_max=BODY_BYTES_MAX)
        return await run_in_threadpool(_drain, connect, wanted)

    return [
        Route("/", show_page),
        Route("/v1/overview", guard.needs("read", overview)),
        Route(
            "/v1/config",
            guard.needs("admin", show_config, parameters=["node"]),
            methods=["GET"],
        ),
        Route("/v1/config", guard.needs("admin", change_config), methods=["POST"]),
        Route("/v1/drain", guard.needs("admin", drain), methods=["POST"]),
    ]


def _settings(client: Client, node: str) -> Response:
    replies = client.settings({"do": "show"}, node=node)
    return JSONResponse({"nodes": {each.node: settings_in(each) for each in replies}})


def _change(connect: Connect, wanted: Change) -> Response:
    with connect() as client:
        changed = change_setting(client, wanted.key, wanted.value, node=wanted.node)
    faults = [fault_of(each) for each in changed.refused]
    is_ours = any(not isinstance(each, InvalidRequest) for each in faults)
    body: dict[str, Any] = {
        "nodes": changed.done,
        "warnings": changed.warnings,
        "error": "; ".join(str(each) for each in faults),
        "hint": faults[0].hint if faults else "",
    }
    return JSONResponse(body, status_code=(503 if is_ours else 400) if faults else 200)


def _drain(connect: Connect, wanted: Drain) -> Response:
    with connect() as client:
        begin_drain(client, wanted.node)
    return JSONResponse({"node": wanted.node}, status_code=202)
