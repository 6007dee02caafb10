"""Guard: who may ask what over HTTP. The tokens are those of the wire.

``Authorization: Bearer NAME.SECRET``. A node without tokens asks for none. 401 answers who has
proven nothing, 403 whose token has not the right: from the rights alone, before anything is looked
up, so both say nothing about what is there.
"""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import Metric
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from gd2fs.admin.parameters import parameters_of
from gd2fs.errors import InvalidRequest
from gd2fs.tokens import KnownToken, key_of, parse_token

Answer = Callable[[Request], Response | Awaitable[Response]]
SCHEME = "bearer"
NEEDED = "a token is needed: `Authorization: Bearer NAME.SECRET`"
UNKNOWN = "this node does not know that token"
NOBODY_KEY = key_of("nobody")  # compared with where there is no token of that name
EVERYBODY = KnownToken("", b"")  # of a node without tokens


class NotProven(Exception):
    """No token, or a wrong one. ``reason``: as refusals are counted."""

    def __init__(self, reason: str) -> None:
        super().__init__(NEEDED if reason == "no_token" else UNKNOWN)
        self.reason = reason


class NotAllowed(Exception):
    """The token does not have the right."""

    def __init__(self, caller: KnownToken) -> None:
        super().__init__(f"token `{caller.name}` has no right to this")


class AdminGuard:
    """Wraps the routes of the admin side. Thread-safe."""

    def __init__(self, known: Sequence[KnownToken] = ()) -> None:
        self._known: dict[str, KnownToken] = {}
        self.set(known)

    def set(self, known: Sequence[KnownToken]) -> None:
        """Know these tokens from now on, and no others; none: everybody may do everything."""
        self._known = {each.name: each for each in known}  # one step: readers see old or new

    def needs(
        self,
        right: str,
        answer: Answer,
        *,
        everywhere: bool = True,
        parameters: Sequence[str] | None = (),
    ) -> Callable[[Request], Awaitable[Response]]:
        """``answer`` for those alone who have ``right``; others raise NotProven or NotAllowed.

        Args:
            right: What it takes: ``read``, ``write`` or ``admin``.
            answer: What the route does, a function or a coroutine function.
            everywhere: In all namespaces; else ``answer`` has to look at ``caller_of(request)``.
            parameters: Those that ``answer`` looks at, in ``said_in(request)``; others raise
                InvalidRequest. None: any may come, and none matters.
        """

        async def guarded(request: Request) -> Response:
            caller = self.caller(request)
            if not caller.may(right, None if everywhere else _any_of(caller)):
                raise NotAllowed(caller)
            request.state.caller = caller
            if parameters is not None:
                request.state.said = parameters_of(request, parameters)
            if inspect.iscoroutinefunction(answer):
                return await answer(request)
            return await run_in_threadpool(answer, request)  # type: ignore[arg-type]

        return guarded

    def caller(self, request: Request) -> KnownToken:
        """Whose token the request shows. Raises NotProven: nobody's."""
        known = self._known
        if not known:
            return EVERYBODY
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != SCHEME:
            raise NotProven("no_token")
        try:
            token = parse_token(text)
        except InvalidRequest as cause:
            raise NotProven("unknown_token") from cause
        found = known.get(token.name)
        is_right = hmac.compare_digest(token.key, found.key if found else NOBODY_KEY)
        if found is None:
            raise NotProven("unknown_token")
        if not is_right:
            raise NotProven("wrong_secret")
        return found


def caller_of(request: Request) -> KnownToken:
    """Whose token a guarded request has shown."""
    caller: KnownToken = request.state.caller
    return caller


def said_in(request: Request) -> dict[str, str]:
    """The parameters that the route of a guarded request knows; empty where they are not said."""
    said: dict[str, str] = request.state.said
    return said


class OwnNamespaces:
    """Of a collector's metrics, what is about namespaces that a caller may read."""

    def __init__(self, inner: Any, caller: KnownToken) -> None:
        self._inner = inner
        self._caller = caller

    def collect(self) -> Iterable[Metric]:
        """Yield families with the samples that are left, if any."""
        for family in self._inner.collect():
            kept = [each for each in family.samples if self._may_see(each.labels.get("namespace"))]
            if not kept:
                continue
            family.samples = kept
            yield family

    def _may_see(self, namespace: str | None) -> bool:
        return bool(namespace) and self._caller.may("read", namespace)


def visible_to(caller: KnownToken, collector: Any) -> Any:
    """``collector``, or as much of it as ``caller`` may see."""
    return collector if caller.is_everywhere else OwnNamespaces(collector, caller)


def _any_of(caller: KnownToken) -> str | None:
    return caller.namespaces[0] if caller.namespaces else None
