"""Advice desk: takes advice for the whole cluster over HTTP, at any node's admin address.

A router says which session comes next the moment its request arrives; the bytes are on their way
into memory before the engine asks for them. No byte of the cache passes through here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gd2fs import _core
from gd2fs.admin.body import body_of, is_json, is_of_another_site
from gd2fs.admin.guard import AdminGuard, NotAllowed, caller_of
from gd2fs.advice import Advised, check_range
from gd2fs.argument import name_bytes, refuse_name
from gd2fs.client import Client
from gd2fs.errors import InvalidRequest
from gd2fs.tokens import KnownToken
from gd2fs.tracing import HEADER, TraceContext, Tracer

BODY_BYTES_MAX = 1 << 20
NAMES_MAX = 4096  # of one call
UNDER_WAY_MAX = 256  # calls that nobody waits for
TIMEOUT_S_DEFAULT = 30.0
TIMEOUT_S_MAX = 600.0
RIGHT_FOR = {"willneed": "read", "dontneed": "write", "pin": "admin", "unpin": "admin"}

log = logging.getLogger(__name__)


class Advice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one call asks for, as its JSON says it."""

    advice: Literal["willneed", "dontneed", "pin", "unpin"]
    paths: list[str] = []
    namespace: str = ""
    keys: list[str] = []
    offset: int = 0
    length: int = 0
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = TIMEOUT_S_DEFAULT
    wait: bool = False

    @property
    def names_count(self) -> int:
        """How many files and pages it is about."""
        return len(self.paths) + len(self.keys)


def advice_routes(desk: AdviceDesk, guard: AdminGuard, tracer: Tracer) -> list[Route]:
    """``POST /v1/advise``."""

    async def advise(request: Request) -> Response:
        if is_of_another_site(request) and not is_json(request):
            raise InvalidRequest(
                "asked by another site's page", hint="send `content-type: application/json`"
            )
        advice = check_advice(await body_of(request, Advice, bytes_max=BODY_BYTES_MAX))
        if not is_allowed(advice, caller_of(request)):
            raise NotAllowed(caller_of(request))
        asker = TraceContext.parse(request.headers.get(HEADER))
        attributes = {"gd2fs.names": advice.names_count}
        with tracer.span(f"advice {advice.advice}", **attributes) as own:
            context = own or asker
            answer = await run_in_threadpool(desk.take, advice, context.low_half if context else 0)
        return JSONResponse(answer, status_code=200 if advice.wait else 202)

    return [Route("/v1/advise", guard.needs("read", advise, everywhere=False), methods=["POST"])]


def check_advice(advice: Advice) -> Advice:
    """Return ``advice`` when it can be carried out, as far as its words say.

    Raises:
        InvalidRequest: It is about too much, or about nothing, or names what can be no name.
    """
    if not 1 <= advice.names_count <= NAMES_MAX:
        raise InvalidRequest(
            f"{advice.names_count} names", hint=f"give `paths` or `keys`, {NAMES_MAX} at most"
        )
    if advice.keys and not advice.namespace:
        raise InvalidRequest("keys without a namespace", hint='add "namespace": "NAME"')
    check_range(advice.offset, advice.length)
    for path in advice.paths:
        refuse_name("path", path, _core.path_fault(name_bytes(path)))
    if advice.namespace:
        fault = _core.namespace_fault(name_bytes(advice.namespace))
        refuse_name("namespace", advice.namespace, fault)
    for key in advice.keys:
        refuse_name("key", key, _core.key_fault(name_bytes(key)))
    return advice


def is_allowed(advice: Advice, caller: KnownToken) -> bool:
    """May ``caller`` say so of every name? As the native server decides it of a client's advice."""
    right = RIGHT_FOR[advice.advice]
    namespaces = {path.removeprefix("/").partition("/")[0] for path in advice.paths}
    if advice.keys:
        namespaces.add(advice.namespace)
    return all(caller.may(right, each) for each in namespaces)


class AdviceDesk:
    """Carries advice out through a client of its own, made with the first call. Thread-safe."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._lock = threading.Lock()  # Guards: the two below.
        self._client: Client | None = None
        self._under_way: deque[Advised] = deque()

    def take(self, advice: Advice, trace: int = 0) -> dict[str, Any]:
        """Begin it, and with ``wait`` see it to its end.

        Args:
            trace: What it belongs to; handed on to the nodes. 0: nothing.

        Returns:
            ``started``: how many names it is about; or ``bytes`` and ``missing`` names.

        Raises:
            InvalidRequest: A name is none, or more would be pinned than may be.
            Unavailable: No node, or not every node, answered in time.
        """
        begun = self._begin(advice, trace)
        log.debug("advice %s for %d names, trace %016x", advice.advice, advice.names_count, trace)
        if not advice.wait:
            self._keep(begun)
            return {"started": advice.names_count}
        done = sum(each.wait() or 0 for each in begun)
        return {"bytes": done, "missing": [str(name) for each in begun for name in each.missing]}

    def close(self) -> None:
        """Cancel what is under way."""
        with self._lock:
            client, self._client = self._client, None
            self._under_way.clear()
        if client:
            client.close()

    def _begin(self, advice: Advice, trace: int) -> list[Advised]:
        client = self._connected()
        begun = []
        if advice.paths:
            begun.append(
                client.fadvise(
                    advice.paths,
                    advice.advice,
                    offset=advice.offset,
                    length=advice.length,
                    timeout_s=advice.timeout_s,
                    trace=trace,
                )
            )
        if advice.keys:
            pages = client.pages(advice.namespace)
            begun.append(
                pages.fadvise(advice.keys, advice.advice, timeout_s=advice.timeout_s, trace=trace)
            )
        return begun

    def _keep(self, begun: list[Advised]) -> None:
        """Until they are done, or so many have come since that nobody can want these any more."""
        with self._lock:
            self._under_way.extend(begun)
            while self._under_way and self._under_way[0].is_done:
                self._under_way.popleft()
            while len(self._under_way) > UNDER_WAY_MAX:
                self._under_way.popleft().cancel()

    def _connected(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client
