"""Askers: one turn asked of a server of SGLang, of vLLM, or of anything that speaks OpenAI's API.

All stream, answer greedily and say how much of the prompt they found in a cache, each in its way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx

from gd2fs.bench.asking import Answer, Heard, HttpAsker
from gd2fs.errors import Unavailable

SERVED_NAME = "model"  # what the fleet calls its model


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
