"""Advice desk: takes advice for the whole cluster over HTTP, at any node's admin address.

A router says which session comes next the moment its request arrives; the bytes are on their way
into memory before the engine asks for them. No byte of the cache passes through here.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gd2fs.advice import WISHES, Advised
from gd2fs.client import Client
from gd2fs.errors import InvalidRequest
from gd2fs.tokens import KnownToken

BODY_BYTES_MAX = 1 << 20
NAMES_MAX = 4096  # of one call
UNDER_WAY_MAX = 256  # calls that nobody waits for
TIMEOUT_S_DEFAULT = 30.0
TIMEOUT_S_MAX = 600.0
RIGHT_FOR = {"willneed": "read", "dontneed": "write", "pin": "admin", "unpin": "admin"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Advice:
    """What one call asks for, checked."""

    advice: str
    paths: list[str] = field(default_factory=list)
    namespace: str = ""
    keys: list[str] = field(default_factory=list)
    offset: int = 0
    length: int = 0
    timeout_s: float = TIMEOUT_S_DEFAULT
    wait: bool = False


def parse_advice(body: Any) -> Advice:
    """Read a call's JSON.

    Raises:
        InvalidRequest: It is no advice, or about too much, or about nothing.
    """
    if not isinstance(body, dict):
        raise InvalidRequest(
            "the body is no JSON object", hint='send {"advice": ..., "paths": [...]}'
        )
    fields: dict[str, Any] = {
        "advice": str,
        "paths": list,
        "namespace": str,
        "keys": list,
        "wait": bool,
    }
    numbers: dict[str, Any] = {"offset": int, "length": int, "timeout_s": (int, float)}
    known = fields | numbers
    for name, value in body.items():
        is_number = name in numbers and not isinstance(value, bool)
        if name not in known or not (
            isinstance(value, known[name]) and (is_number or name in fields)
        ):
            raise InvalidRequest(f"`{name}` is unknown, or not what it should be", hint=_hint())
    given: dict[str, Any] = {"advice": ""} | body
    advice = Advice(**given)
    if advice.advice not in WISHES:
        raise InvalidRequest(f"no advice `{advice.advice}`", hint=", ".join(WISHES))
    names = [*advice.paths, *advice.keys]
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidRequest("nothing is named, or not by texts", hint=_hint())
    if len(names) > NAMES_MAX:
        raise InvalidRequest(f"{len(names)} names", hint=f"at most {NAMES_MAX} in one call")
    if advice.keys and not advice.namespace:
        raise InvalidRequest("keys without a namespace", hint='add "namespace": "NAME"')
    if not 0 < advice.timeout_s <= TIMEOUT_S_MAX:
        raise InvalidRequest(
            f"timeout_s is {advice.timeout_s}", hint=f"at most {TIMEOUT_S_MAX:.0f}"
        )
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
        log.debug(
            "advice %s for %d names, trace %016x",
            advice.advice,
            len(advice.paths) + len(advice.keys),
            trace,
        )
        if not advice.wait:
            self._keep(begun)
            return {"started": len(advice.paths) + len(advice.keys)}
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


def _hint() -> str:
    return "advice, paths, namespace, keys, offset, length, timeout_s, wait: see the guide"
