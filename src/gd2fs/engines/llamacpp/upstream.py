"""Upstream: the engine's own HTTP server, as the front uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
import msgspec

from gd2fs.errors import Unavailable

# A prompt may take minutes before its first token; the engine pings every 30 s meanwhile.
READ_S = 600.0
CONNECT_S = 10.0
EVENT_END = b"\n\n"
EVENT_BYTES_MAX = 64 << 20


class Timings(msgspec.Struct):
    """The engine's own counts of one answer."""

    cache_n: int = 0
    prompt_n: int = 0


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class Part(msgspec.Struct):
    """What the front reads of an event, or of an answer in one piece."""

    stop: bool = False
    choices: list[_Choice] = []
    timings: Timings | None = None

    @property
    def is_final(self) -> bool:
        """Whether the answer is complete with this part."""
        return self.stop or any(choice.finish_reason for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Saved:
    """What the engine says of a saved or restored slot."""

    tokens: int
    size_bytes: int


class EngineServer:
    """The engine behind ``address``. For one event loop; an asynchronous context manager."""

    def __init__(self, address: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # The engine closes idle connections without notice, so every request opens its own.
        self._http = httpx.AsyncClient(
            base_url=address,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,
            transport=transport,
        )

    async def __aenter__(self) -> EngineServer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def restore(self, slot: int, file_name: str) -> Saved:
        """Load a saved slot. Raises Unavailable when the engine refuses; the slot is empty then."""
        answer = await self._slot_action(slot, "restore", file_name)
        return Saved(answer["n_restored"], answer["n_read"])

    async def save(self, slot: int, file_name: str) -> Saved:
        """Save a slot. Raises Unavailable when the engine refuses."""
        answer = await self._slot_action(slot, "save", file_name)
        return Saved(answer["n_saved"], answer["n_written"])

    async def pass_on(self, method: str, path: str, body: bytes) -> httpx.Response:
        """Send a request that needs no slot."""
        return await self._http.request(
            method, path, content=body, headers={"content-type": "application/json"}
        )

    def complete(
        self, path: str, body: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """Ask for an answer; leaving the context early makes the engine stop."""
        return self._http.stream("POST", path, json=body)

    async def _slot_action(self, slot: int, action: str, file_name: str) -> dict[str, Any]:
        try:
            response = await self._http.post(
                f"/slots/{slot}", params={"action": action}, json={"filename": file_name}
            )
        except httpx.HTTPError as error:
            raise Unavailable(f"the engine did not {action} slot {slot}: {error!r}") from error
        if response.status_code != 200:
            raise Unavailable(f"the engine did not {action} slot {slot}: {response.text}")
        return response.json()


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut a stream of server-sent events into whole events, each with its blank line."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(EVENT_END)) >= 0:
            yield bytes(buffer[: end + len(EVENT_END)])
            del buffer[: end + len(EVENT_END)]
        if len(buffer) > EVENT_BYTES_MAX:
            raise Unavailable(f"the engine sent an event of more than {EVENT_BYTES_MAX} bytes")
    if buffer:
        yield bytes(buffer)


_decode = msgspec.json.Decoder(Part).decode


def part_of(text: bytes) -> Part:
    """Read an event or an answer; an empty part when it is none of the engine's JSON."""
    text = text.removeprefix(b"data: ").strip()
    if not text.startswith(b"{"):
        return Part()  # a ping, or `[DONE]`
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return Part()
