"""LlamaAsker: one turn asked of an instance of the demo's engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from gd2fs.bench.asking import Answer, Heard, HttpAsker
from gd2fs.errors import Unavailable


class LlamaAsker(HttpAsker):
    """Asks instances of llama.cpp, which save and load a conversation by its name."""

    async def ask(
        self, address: str, prompt: Sequence[int], *, answer_tokens: int, session: str
    ) -> Answer:
        """Have one turn answered, greedily, with exactly ``answer_tokens`` tokens.

        Raises:
            Unavailable: The instance broke off, or refused.
        """
        body = {
            "prompt": list(prompt),
            "n_predict": answer_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_tokens": True,
            "session": session,
        }
        return await self.stream(f"{address}/completion", body, _hear)

    async def tokens_of(self, address: str, text: str, *, is_start: bool) -> list[int]:
        """Cut a text into tokens, as the instance's model does. Raises Unavailable."""
        body = {"content": text, "add_special": is_start, "parse_special": False}
        return (await self.post(f"{address}/tokenize", body)).json()["tokens"]

    async def counts_of(self, address: str) -> dict[str, Any]:
        """The instance's own counts. Raises Unavailable."""
        try:
            return (await self.http.get(f"{address}/stats")).raise_for_status().json()
        except httpx.HTTPError as error:
            raise Unavailable(f"{address} broke off: {error!r}") from error


def _hear(heard: Heard, event: dict[str, Any], now: float) -> None:
    heard.add(event.get("tokens") or (), now)
    if timings := event.get("timings"):
        heard.cached_tokens = timings["cache_n"]
        heard.prompt_tokens = timings["cache_n"] + timings["prompt_n"]
