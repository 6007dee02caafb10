"""Trace route: a recording of what is asked, line by line while it goes on.

POST /v1/trace  {"seconds": S, "node": NAME, "namespace": NAME, "block_tokens": N}: what
                `gd2fs trace record` writes; all but the seconds may be left out. What is wrong
                with it is known when 200 was said: a last line ``{"error": ..., "hint": ...}``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gd2fs.admin.body import body_of, refuse_other_sites
from gd2fs.admin.guard import AdminGuard
from gd2fs.client import Client
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.key_trace import (
    Recording,
    fault_line,
    gaps_of,
    header_of,
    lines_of,
    nothing_recorded,
)

SECONDS_MAX = 3600.0
BODY_BYTES_MAX = 4096
Connect = Callable[[], Client]


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a recording, as `gd2fs trace record` is told it."""

    seconds: float
    node: str = ""
    namespace: str = ""
    block_tokens: int = 1


def trace_routes(connect: Connect, guard: AdminGuard) -> list[Route]:
    """Make them. ``connect`` gives a client of the whole cluster, to be closed by who asked."""

    async def trace(request: Request) -> Response:
        refuse_other_sites(request)
        wanted = await body_of(request, Wanted, bytes_max=BODY_BYTES_MAX)
        lines = await run_in_threadpool(begun, connect, wanted)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    return [Route("/v1/trace", guard.needs("admin", trace), methods=["POST"])]


def begun(connect: Connect, wanted: Wanted) -> Iterator[str]:
    """The lines. What is refused is refused before the first one: InvalidRequest, Unavailable."""
    if not 0 < wanted.seconds <= SECONDS_MAX:
        raise InvalidRequest(
            f"{wanted.seconds:g} seconds", hint=f"more than 0, at most {SECONDS_MAX:g}"
        )
    with ExitStack() as undo:
        client = undo.enter_context(connect())
        recording = undo.enter_context(
            Recording(client, node=wanted.node, namespace=wanted.namespace)
        )
        header = header_of(recording, wanted.block_tokens)
        lines = _lines(client, recording, wanted)
        return _with_header(undo.pop_all(), header, lines)


def _with_header(open_: ExitStack, header: str, lines: Iterator[str]) -> Iterator[str]:
    with open_:
        yield header
        yield from lines


def _lines(client: Client, recording: Recording, wanted: Wanted) -> Iterator[str]:
    """The requests; then, if there is something, what is wrong with them."""
    nodes, gaps, hint = list(recording.nodes), list[str](), ""
    try:
        yield from lines_of(recording, wanted.seconds, wanted.block_tokens)
        gaps = gaps_of(recording.summary)
        if not recording.summary.requests:
            nothing = nothing_recorded(client, nodes, wanted.namespace, wanted.seconds)
            gaps, hint = [str(nothing), *gaps], nothing.hint
    except GD2FSError as error:
        gaps, hint = [str(error), *gaps_of(recording.summary)], error.hint
    if gaps:
        yield fault_line("; ".join(gaps), hint)
