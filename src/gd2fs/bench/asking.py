"""Asking: one request to a server, timed as its client sees it. Answers are streamed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from gd2fs.errors import Unavailable

READ_S = 600.0
EVENT_START = "data: "
LAST_EVENT = "[DONE]"
REFUSAL_CHARACTERS_MAX = 500


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and when, in seconds of one clock.

    Attributes:
        sent_s: When the request was sent.
        token_s: When each token came.
        end_s: When the last event came: with a store, after the turn was saved.
        tokens: The answer.
        reused_tokens: Of the prompt, found in a cache; the engine's own count.
        computed_tokens: Of the prompt.
    """

    sent_s: float
    token_s: tuple[float, ...]
    end_s: float
    tokens: tuple[Any, ...]
    reused_tokens: int
    computed_tokens: int

    @property
    def ttft_s(self) -> float:
        """From the request to the first token."""
        return self.token_s[0] - self.sent_s

    @property
    def gaps_s(self) -> list[float]:
        """Between every token and the next."""
        return [
            after - before for before, after in zip(self.token_s, self.token_s[1:], strict=False)
        ]


@dataclass(slots=True)
class Heard:
    """What has come of an answer so far."""

    tokens: list[Any] = field(default_factory=list)
    token_s: list[float] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    answer_tokens: int = 0

    def add(self, tokens: Sequence[Any], now: float) -> None:
        """Tokens that came just now."""
        self.tokens += tokens
        self.token_s += [now] * len(tokens)


class HttpAsker:
    """Sends requests to servers. For one event loop; an asynchronous context manager.

    Args:
        key: Sent as a bearer token; empty: none is.
    """

    def __init__(self, *, key: str = "", clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.http = httpx.AsyncClient(
            timeout=READ_S,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
            headers={"Authorization": f"Bearer {key}"} if key else {},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.http.aclose()

    async def stream(
        self, url: str, body: dict[str, Any], hear: Callable[[Heard, Any, float], None]
    ) -> Answer:
        """Post ``body`` and let ``hear`` take every event of the answer.

        Raises:
            Unavailable: The server broke off, or refused.
        """
        heard = Heard()
        sent_s = self._clock()
        try:
            async with self._events(url, body) as events:
                async for event in events:
                    hear(heard, event, self._clock())
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise Unavailable(f"{url} broke off: {error!r}") from error
        if heard.prompt_tokens is None or not heard.token_s:
            raise Unavailable(f"{url} ended before its answer was complete")
        return Answer(
            sent_s=sent_s,
            token_s=tuple(heard.token_s),
            end_s=self._clock(),
            tokens=tuple(heard.tokens),
            reused_tokens=heard.cached_tokens,
            computed_tokens=heard.prompt_tokens - heard.cached_tokens,
        )

    async def post(self, url: str, body: Any = None) -> httpx.Response:
        """Post, and have the answer. Raises Unavailable when it is no good one."""
        try:
            answer = await self.http.post(url, json=body)
        except httpx.HTTPError as error:
            raise Unavailable(f"{url} broke off: {error!r}") from error
        if answer.status_code != 200:
            raise Unavailable(f"{url} refused: {answer.text[:REFUSAL_CHARACTERS_MAX]}")
        return answer

    @asynccontextmanager
    async def _events(
        self, url: str, body: dict[str, Any]
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        async with self.http.stream("POST", url, json=body) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode(errors="replace")
                raise Unavailable(f"{url} refused: {text[:REFUSAL_CHARACTERS_MAX]}")
            yield _decoded(response.aiter_lines())


async def _decoded(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    async for line in lines:
        text = line.removeprefix(EVENT_START)
        if line.startswith(EVENT_START) and text != LAST_EVENT:
            yield msgspec.json.decode(text)
