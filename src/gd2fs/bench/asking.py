"""Asking: one request to an instance, timed as its client sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
import msgspec

from gd2fs.errors import Unavailable

READ_S = 600.0
EVENT_START = "data: "


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


class _Timings(msgspec.Struct):
    cache_n: int
    prompt_n: int


class _Event(msgspec.Struct):
    tokens: list[int] = []
    stop: bool = False
    timings: _Timings | None = None


class Asker:
    """Sends requests to instances. For one event loop; an asynchronous context manager."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._http = httpx.AsyncClient(
            timeout=READ_S, limits=httpx.Limits(max_connections=None), trust_env=False
        )

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def ask(
        self, address: str, prompt: Sequence[int], *, answer_tokens: int, session: str
    ) -> Answer:
        """Have one turn answered, greedily, with exactly ``answer_tokens`` tokens.

        Raises:
            Unavailable: The instance broke off, or refused.
        """
        body = {
            "prompt": prompt,
            "n_predict": answer_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_tokens": True,
            "session": session,
        }
        try:
            return await self._stream(f"{address}/completion", body)
        except httpx.HTTPError as error:
            raise Unavailable(f"{address} broke off: {error!r}") from error

    async def tokens_of(self, address: str, text: str, *, is_start: bool) -> list[int]:
        """Cut a text into tokens, as the instance's model does."""
        body = {"content": text, "add_special": is_start, "parse_special": False}
        return (await self._post(f"{address}/tokenize", body))["tokens"]

    async def counts_of(self, address: str) -> dict[str, Any]:
        """The instance's own counts."""
        try:
            return (await self._http.get(f"{address}/stats")).raise_for_status().json()
        except httpx.HTTPError as error:
            raise Unavailable(f"{address} broke off: {error!r}") from error

    async def _post(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return (await self._http.post(url, json=body)).raise_for_status().json()
        except httpx.HTTPError as error:
            raise Unavailable(f"{url} broke off: {error!r}") from error

    async def _stream(self, url: str, body: dict[str, Any]) -> Answer:
        sent_s = self._clock()
        tokens: list[int] = []
        token_s: list[float] = []
        timings: _Timings | None = None
        async with self._http.stream("POST", url, json=body) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode(errors="replace")
                raise Unavailable(f"{url} refused: {text}")
            async for line in response.aiter_lines():
                if not line.startswith(EVENT_START):
                    continue
                event = _decode(line.removeprefix(EVENT_START))
                tokens += event.tokens
                token_s += [self._clock()] * len(event.tokens)
                timings = event.timings or timings
        if timings is None or not tokens:
            raise Unavailable(f"{url} ended before its answer was complete")
        return Answer(
            sent_s=sent_s,
            token_s=tuple(token_s),
            end_s=self._clock(),
            tokens=tuple(tokens),
            reused_tokens=timings.cache_n,
            computed_tokens=timings.prompt_n,
        )


_decode = msgspec.json.Decoder(_Event).decode
