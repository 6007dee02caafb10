"""Front: the HTTP face of an instance. Plain llama.cpp and OpenAI requests, and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from gd2fs.engines.llamacpp.conversation import Conversation, conversation_of
from gd2fs.engines.llamacpp.counts import Counts, prometheus_text
from gd2fs.engines.llamacpp.turn import Answer
from gd2fs.engines.llamacpp.upstream import EngineServer
from gd2fs.errors import GD2FSError, InvalidRequest

BODY_BYTES_MAX = 64 << 20
SESSION_HEADER = "x-session-id"
TURN_PATHS = (
    "/completion",
    "/completions",
    "/v1/completions",
    "/chat/completions",
    "/v1/chat/completions",
)
PASSED_PATHS = (
    "/v1/models",
    "/models",
    "/props",
    "/tokenize",
    "/detokenize",
    "/apply-template",
)

RunTurn = Callable[
    [str, Mapping[str, Any], Conversation | None], AsyncGenerator[Answer | bytes, None]
]


def make_app(run_turn: RunTurn, engine: EngineServer, counts: Counts, facts: dict[str, Any]) -> Any:
    """Build the application.

    Args:
        run_turn: Yields the head of the answer, then its bytes.
        engine: For requests that need no slot.
        counts: Shown by ``/stats`` and ``/metrics``.
        facts: Shown by ``/stats`` beside the counts.
    """

    async def pass_on(request: Request) -> Response:
        body = await _read_body(request)
        answer = await engine.pass_on(request.method, request.url.path, body)
        kind = answer.headers.get("content-type")
        return Response(answer.content, answer.status_code, media_type=kind)

    async def health(_: Request) -> Response:
        answer = await engine.pass_on("GET", "/health", b"")
        return Response(answer.content, answer.status_code, media_type="application/json")

    async def stats(_: Request) -> Response:
        return JSONResponse({**facts, **counts.as_dict()})

    async def metrics(_: Request) -> Response:
        return Response(prometheus_text(counts), media_type="text/plain; version=0.0.4")

    turn = TurnEndpoint(run_turn)
    routes = [Route(path, turn, methods=["POST"]) for path in TURN_PATHS]
    routes += [Route(path, pass_on, methods=["GET", "POST"]) for path in PASSED_PATHS]
    routes += [Route("/health", health), Route("/stats", stats), Route("/metrics", metrics)]
    handlers = {InvalidRequest: _refuse, GD2FSError: _unavailable, httpx.HTTPError: _broken}
    return Starlette(routes=routes, exception_handlers=handlers)


class TurnEndpoint:
    """Answers one turn. The turn is given up as soon as the client hangs up."""

    def __init__(self, run_turn: RunTurn) -> None:
        self._run_turn = run_turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = _decoded(await _read_body(request))
            conversation = conversation_of(body, request.headers.get(SESSION_HEADER))
        except ClientDisconnect:
            return
        body.pop("session", None)
        work = asyncio.create_task(self._answer(scope["path"], body, conversation, send))
        hang_up = asyncio.create_task(_hang_up(receive))
        try:
            await asyncio.wait({work, hang_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hang_up.cancel()
            if not work.done():
                work.cancel()
        await asyncio.gather(hang_up, return_exceptions=True)
        if not work.cancelled() and (error := await _error_of(work)) is not None:
            raise error

    async def _answer(
        self,
        path: str,
        body: Mapping[str, Any],
        conversation: Conversation | None,
        send: Send,
    ) -> None:
        async with aclosing(self._run_turn(path, body, conversation)) as parts:
            async for part in parts:
                await send(_message(part))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _message(part: Answer | bytes) -> dict[str, Any]:
    if isinstance(part, Answer):
        headers = [(b"content-type", part.content_type.encode()), (b"cache-control", b"no-cache")]
        return {"type": "http.response.start", "status": part.status, "headers": headers}
    return {"type": "http.response.body", "body": part, "more_body": True}


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _error_of(work: asyncio.Task[None]) -> BaseException | None:
    await asyncio.wait({work})
    return None if work.cancelled() else work.exception()


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise InvalidRequest(f"a request has at most {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the body is not a JSON object: {error}") from error
    for name in ("n", "n_cmpl"):
        if body.get(name) not in (None, 1):
            raise InvalidRequest(f"`{name}` must be 1: a turn has one slot")
    return body


async def _refuse(_: Request, error: Exception) -> Response:
    return _error_response(400, "invalid_request_error", str(error))


async def _unavailable(_: Request, error: Exception) -> Response:
    return _error_response(503, "unavailable_error", str(error))


async def _broken(_: Request, error: Exception) -> Response:
    return _error_response(502, "server_error", f"the engine broke off: {error!r}")


def _error_response(status: int, kind: str, message: str) -> Response:
    content = {"error": {"code": status, "message": message, "type": kind}}
    return JSONResponse(content, status_code=status)
