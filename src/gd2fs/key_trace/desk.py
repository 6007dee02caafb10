"""Trace desk: a node's side of a recording. One at a time; whoever records has to come back.

``{"do": "trace", "step": "begin", "id": ID, "key": HEX, "namespace": NAME}``, then ``take`` again
and again, then ``end``, the way that questions about settings go: an administrator's alone.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import Any, Protocol

from gd2fs.errors import InvalidRequest

ENTRIES_MAX = 11_000  # of one answer, which has room for 256 KiB of text
KEY_BYTES = 16


class Server(Protocol):
    """What of the native server is used here."""

    def begin_key_trace(self, key: bytes, namespace: str) -> None: ...
    def take_key_trace(self, entries_max: int) -> tuple[bytes, bool, int]: ...
    def is_key_trace_on(self) -> bool: ...
    def end_key_trace(self) -> None: ...


class TraceDesk:
    """Of one node. Asked from one thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._id = ""

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a step comes to.

        Returns:
            ``now_us``: the node's steady clock. After ``take`` also ``entries`` (base64),
            ``is_more``, and ``dropped``: keys that there was no room for, since the beginning.

        Raises:
            InvalidRequest: No such step, or somebody else records, or nobody any more.
        """
        steps = {"begin": self._begin, "take": self._take, "end": self._end}
        step = steps.get(str(request.get("step")))
        if step is None:
            raise InvalidRequest("no such step of a recording", hint="`begin`, `take` or `end`")
        return {"now_us": time.monotonic_ns() // 1000} | step(request)

    def _begin(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._server.is_key_trace_on():
            raise InvalidRequest(
                "somebody records this node already",
                hint="try again later; a recording whose recorder has gone ends after 10 s",
            )
        try:
            key = bytes.fromhex(str(request.get("key")))
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES or not request.get("id"):
            raise InvalidRequest("a recording needs an id and a key of 16 bytes", hint="")
        self._server.begin_key_trace(key, str(request.get("namespace", "")))
        self._id = str(request["id"])
        return {}

    def _take(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._check(request)
        entries, is_more, dropped = self._server.take_key_trace(ENTRIES_MAX)
        text = base64.b64encode(entries).decode("ascii")
        return {"entries": text, "is_more": is_more, "dropped": dropped}

    def _end(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._check(request)
        self._server.end_key_trace()
        return {}

    def _check(self, request: Mapping[str, Any]) -> None:
        if request.get("id") != self._id or not self._server.is_key_trace_on():
            raise InvalidRequest("this recording has ended", hint="begin another one")
