"""Askers: one turn asked of a server of SGLang, of vLLM, or of anything that speaks OpenAI's API.

All stream, answer greedily and say how much of the prompt they found in a cache, each in its way.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from gd2fs.bench.asking import EVENT_START, READ_S, Answer
from gd2fs.errors import Unavailable

LAST_EVENT = "[DONE]"
REFUSAL_CHARACTERS_MAX = 500
SERVED_NAME = "model"  # what the fleet calls its model


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


class TokenAsker(HttpAsker, ABC):
    """Asks with tokens, which a server of the fleet has cut a text into."""

    @abstractmethod
    async def ask(
        self, address: str, prompt: Sequence[int], *, answer_tokens: int, session: str
    ) -> Answer:
        """Have one turn answered, greedily, with exactly ``answer_tokens`` tokens."""

    async def tokens_of(self, address: str, text: str, *, is_start: bool) -> list[int]:
        """Cut a text into tokens, as the server's model does. Raises Unavailable."""
        body = {"model": SERVED_NAME, "prompt": text, "add_special_tokens": is_start}
        return (await self.post(f"{address}/tokenize", body)).json()["tokens"]


class SglangAsker(TokenAsker):
    """Asks servers of SGLang, by its own `/generate`."""

    async def ask(
        self, address: str, prompt: Sequence[int], *, answer_tokens: int, session: str
    ) -> Answer:
        sampling = {"max_new_tokens": answer_tokens, "temperature": 0, "ignore_eos": True}
        body = {"input_ids": list(prompt), "stream": True, "sampling_params": sampling}
        return await self.stream(f"{address}/generate", body, _hear_sglang)


def _hear_sglang(heard: Heard, event: dict[str, Any], now: float) -> None:
    facts = event["meta_info"]
    heard.prompt_tokens = facts["prompt_tokens"]
    heard.cached_tokens = facts["cached_tokens"]
    tokens = event["output_ids"]
    is_whole = len(tokens) == facts["completion_tokens"]  # or only what is new, as it was started
    heard.add(tokens[len(heard.tokens) :] if is_whole else tokens, now)


class VllmAsker(TokenAsker):
    """Asks servers of vLLM, by completions of OpenAI's kind that carry tokens back."""

    async def ask(
        self, address: str, prompt: Sequence[int], *, answer_tokens: int, session: str
    ) -> Answer:
        body = {
            "model": SERVED_NAME,
            "prompt": list(prompt),
            "max_tokens": answer_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        return await self.stream(f"{address}/v1/completions", body, _hear_vllm)


def _hear_vllm(heard: Heard, event: dict[str, Any], now: float) -> None:
    for choice in event.get("choices", ()):
        heard.add(choice.get("token_ids") or (), now)
    _hear_usage(heard, event)


class OpenAiAsker(HttpAsker):
    """Asks any server with chat messages. The answer is one text, the whole of it.

    Args:
        model: As the servers call it.
        tokens_max: Of an answer; the texts of a turn do not tell.
        key: Sent as a bearer token; empty: none is.
    """

    def __init__(self, *, model: str, tokens_max: int, key: str = "") -> None:
        super().__init__(key=key)
        self._model = model
        self._tokens_max = tokens_max

    async def ask(
        self, address: str, prompt: Sequence[dict[str, str]], *, answer_tokens: int, session: str
    ) -> Answer:
        """Have one turn answered, greedily."""
        body = {
            "model": self._model,
            "messages": list(prompt),
            "max_tokens": self._tokens_max,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        answer = await self.stream(f"{address}/v1/chat/completions", body, _hear_chat)
        return replace(answer, tokens=("".join(answer.tokens),))  # where it was cut says nothing

    async def models(self, address: str) -> list[str]:
        """What a server serves. Raises Unavailable."""
        try:
            answer = (await self.http.get(f"{address}/v1/models")).raise_for_status()
            return [each["id"] for each in answer.json()["data"]]
        except (httpx.HTTPError, KeyError, ValueError) as error:
            raise Unavailable(f"{address} does not say which models it has: {error!r}") from error


def _hear_chat(heard: Heard, event: dict[str, Any], now: float) -> None:
    for choice in event.get("choices", ()):
        if text := choice.get("delta", {}).get("content"):
            heard.add([text], now)
    _hear_usage(heard, event)


def _hear_usage(heard: Heard, event: dict[str, Any]) -> None:
    if usage := event.get("usage"):
        heard.prompt_tokens = usage["prompt_tokens"]
        heard.answer_tokens = usage["completion_tokens"]
        heard.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
