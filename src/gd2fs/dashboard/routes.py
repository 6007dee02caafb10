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

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gd2fs.admin_guard import AdminGuard
from gd2fs.client import Client
from gd2fs.dashboard.page import Page
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.operating import begin_drain, change_setting, fault_of, settings_in
from gd2fs.overview_desk import OverviewDesk

BODY_BYTES_MAX = 4096
Connect = Callable[[], Client]


def dashboard_routes(
    desk: OverviewDesk, connect: Connect, page: Page, guard: AdminGuard
) -> list[Route]:
    """Make them. ``connect`` gives a client of the whole cluster, to be closed by who asked."""

    def show_page(_: Request) -> Response:
        return Response(page.html, media_type="text/html", headers=page.headers)

    async def overview(request: Request) -> Response:
        try:
            seen = await desk.seen()
        except GD2FSError as error:
            return _refusal(503, error)
        is_zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"cache-control": "no-store", "vary": "accept-encoding"}
        if is_zipped:
            headers["content-encoding"] = "gzip"
        body = seen.zipped if is_zipped else seen.plain
        return Response(body, media_type="application/json", headers=headers)

    async def show_config(request: Request) -> Response:
        node = request.query_params.get("node", "")
        return await _carry_out(connect, lambda client: _settings(client, node))

    async def change_config(request: Request) -> Response:
        return await _operate(request, connect, _change)

    async def drain(request: Request) -> Response:
        return await _operate(request, connect, _drain)

    return [
        Route("/", show_page),
        Route("/v1/overview", guard.needs("read", overview)),
        Route("/v1/config", guard.needs("admin", show_config), methods=["GET"]),
        Route("/v1/config", guard.needs("admin", change_config), methods=["POST"]),
        Route("/v1/drain", guard.needs("admin", drain), methods=["POST"]),
    ]


# ---- what is asked for ---------------------------------------------------------------------------


def _settings(client: Client, node: str) -> Response:
    replies = client.settings({"do": "show"}, node=node)
    return JSONResponse({"nodes": {each.node: settings_in(each) for each in replies}})


def _change(client: Client, body: dict[str, Any]) -> Response:
    key, value = _text(body, "key"), body.get("value")
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("`value` is no text", hint="as in a file, or null to take it back")
    changed = change_setting(client, key, value, node=_text(body, "node", ""))
    faults = [fault_of(each) for each in changed.refused]
    is_ours = any(not isinstance(each, InvalidRequest) for each in faults)
    return JSONResponse(
        {
            "nodes": changed.done,
            "warnings": changed.warnings,
            "error": "; ".join(str(each) for each in faults),
            "hint": faults[0].hint if faults else "",
        },
        status_code=(503 if is_ours else 400) if faults else 200,
    )


def _drain(client: Client, body: dict[str, Any]) -> Response:
    node = _text(body, "node")
    begin_drain(client, node)
    return JSONResponse({"node": node}, status_code=202)


def _text(body: dict[str, Any], name: str, default: str | None = None) -> str:
    value = body.get(name, default)
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` is no text", hint=f'add "{name}": "..."')
    return value


# ---- how it is asked for -------------------------------------------------------------------------


async def _operate(
    request: Request, connect: Connect, act: Callable[[Client, dict[str, Any]], Response]
) -> Response:
    try:
        _check_origin(request)
        body = await _body_of(request)
    except InvalidRequest as error:
        return _refusal(400, error)
    return await _carry_out(connect, lambda client: act(client, body))


async def _carry_out(connect: Connect, act: Callable[[Client], Response]) -> Response:
    def run() -> Response:
        with connect() as client:
            return act(client)

    try:
        return await run_in_threadpool(run)
    except InvalidRequest as error:
        return _refusal(400, error)
    except GD2FSError as error:
        return _refusal(503, error)


def _check_origin(request: Request) -> None:
    """Another site's page, open in an operator's browser, must not act in the operator's place."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise InvalidRequest("the body is no JSON", hint="send `content-type: application/json`")
    origin = request.headers.get("origin")
    if origin and urlsplit(origin).netloc != request.headers.get("host"):
        raise InvalidRequest(f"asked by a page of {origin}", hint="use this node's own page")


async def _body_of(request: Request) -> dict[str, Any]:
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > BODY_BYTES_MAX:
            raise InvalidRequest(f"more than {BODY_BYTES_MAX} bytes", hint="send one change")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise InvalidRequest("the body is no JSON", hint='send {"node": ...}') from cause
    if not isinstance(body, dict):
        raise InvalidRequest("the body is no JSON object", hint='send {"node": ...}')
    return body


def _refusal(status: int, error: GD2FSError) -> Response:
    return JSONResponse({"error": str(error), "hint": error.hint}, status_code=status)
