"""Fake engines: servers that speak as SGLang, vLLM and OpenAI do, and cache whole pages of prompts.

They compute nothing: an answer follows from its prompt. What they find cached is what a real cache
of pages would, in a store of their own or in one that they share.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

PAGE_TOKENS = 4
PATIENCE_S = 20.0


class FakeEngine:
    """One server on a free port. A context manager.

    Args:
        pages: Hashes of the pages that are cached; give several engines the same one.
        tells: Whether answers say what was cached.
    """

    def __init__(
        self, pages: set[bytes] | None = None, *, model: str = "model", tells: bool = True
    ) -> None:
        self.tells = tells
        self.asked = 0
        self.pages = set() if pages is None else pages
        self.model = model
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        routes = [
            Route("/generate", self._generate, methods=["POST"]),
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/tokenize", self._tokenize, methods=["POST"]),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))

    def __enter__(self) -> FakeEngine:
        self._thread.start()
        end = time.monotonic() + PATIENCE_S
        while not self._server.started:
            assert time.monotonic() < end, "the fake engine does not start"
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._socket.close()

    def _found(self, prompt: Sequence[int]) -> int:
        """Tokens of the prompt that are cached; all of its whole pages are from now on."""
        sums, found, is_prefix = hashlib.sha256(), 0, True
        for at in range(0, len(prompt) - PAGE_TOKENS + 1, PAGE_TOKENS):
            sums.update(repr(list(prompt[at : at + PAGE_TOKENS])).encode())
            is_prefix = is_prefix and sums.digest() in self.pages
            found += PAGE_TOKENS * is_prefix
            self.pages.add(sums.digest())
        return min(found, len(prompt) - 1)

    async def _generate(self, request: Request) -> StreamingResponse:
        body = await request.json()
        prompt, count = body["input_ids"], body["sampling_params"]["max_new_tokens"]
        found, answer = self._found(prompt), answer_of(prompt, count)

        def events() -> Iterator[dict]:
            for at in range(1, count + 1):
                facts = {"prompt_tokens": len(prompt), "cached_tokens": found}
                yield {"output_ids": answer[:at], "meta_info": facts | {"completion_tokens": at}}

        return as_stream(events())

    async def _complete(self, request: Request) -> StreamingResponse:
        body = await request.json()
        prompt, count = body["prompt"], body["max_tokens"]
        usage = usage_of(prompt, self._found(prompt), count)
        events = [{"choices": [{"token_ids": [each]}]} for each in answer_of(prompt, count)]
        return as_stream([*events, {"choices": [], "usage": usage}])

    async def _chat(self, request: Request) -> StreamingResponse:
        body = await request.json()
        text = "".join(f"<{each['role']}>{each['content']}" for each in body["messages"])
        prompt, count = list(text.encode()), body["max_tokens"]
        usage = usage_of(prompt, self._found(prompt), count)
        self.asked += 1
        if not self.tells:
            usage["prompt_tokens_details"] = None
        words = [f"{each} " for each in answer_of(prompt, count)]
        events = [{"choices": [{"delta": {"content": each}}]} for each in words]
        return as_stream([{"choices": [{"delta": {}}]}, *events, {"choices": [], "usage": usage}])

    async def _models(self, _: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": self.model}]})

    async def _tokenize(self, request: Request) -> JSONResponse:
        return JSONResponse({"tokens": list((await request.json())["prompt"].encode())})


def answer_of(prompt: Sequence[int], count: int) -> list[int]:
    """``count`` tokens that follow from the prompt."""
    digest = hashlib.sha256(repr(list(prompt)).encode()).digest()
    return [digest[at % len(digest)] for at in range(count)]


def usage_of(prompt: Sequence[int], found: int, count: int) -> dict:
    return {
        "prompt_tokens": len(prompt),
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": found},
    }


def as_stream(events: Iterator[dict] | list[dict]) -> StreamingResponse:
    lines = (f"data: {json.dumps(event)}\n\n" for event in events)
    return StreamingResponse([*lines, "data: [DONE]\n\n"], media_type="text/event-stream")
