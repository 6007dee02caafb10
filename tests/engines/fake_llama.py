"""A fake of llama.cpp's HTTP server: as much of it as the front uses, without a model.

A slot's content is the list of its tokens; answers are the token numbers that follow.
"""

import json
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


class FakeLlama:
    """Serve it with ``transport``. ``refused`` names slot actions that fail."""

    def __init__(self, folder: Path, slots: int = 2) -> None:
        self.folder = folder
        self.slots: list[list[int]] = [[] for _ in range(slots)]
        self.refused: set[str] = set()
        self.busy: set[int] = set()
        routes = [
            Route("/slots/{slot:int}", self._slot, methods=["POST"]),
            Route("/completion", self._completion, methods=["POST"]),
            Route("/health", lambda _: JSONResponse({"status": "ok"})),
        ]
        self.transport = httpx.ASGITransport(Starlette(routes=routes))

    async def _slot(self, request: Request) -> Response:
        slot = request.path_params["slot"]
        assert slot not in self.busy
        action = request.query_params["action"]
        file = self.folder / (await request.json())["filename"]
        if action in self.refused:
            return JSONResponse({"error": {"message": f"cannot {action}"}}, 400)
        if action == "save":
            file.write_text(json.dumps(self.slots[slot]))
            return JSONResponse({"n_saved": len(self.slots[slot]), "n_written": 1})
        self.slots[slot] = json.loads(file.read_text())
        return JSONResponse({"n_restored": len(self.slots[slot]), "n_read": 1})

    async def _completion(self, request: Request) -> Response:
        body = await request.json()
        prompt, slot = body["prompt"], body["id_slot"]
        if not prompt:
            return JSONResponse({"error": {"message": "empty prompt"}}, 400)
        assert slot not in self.busy
        reused = _agreeing(self.slots[slot], prompt[:-1])
        timings = {"cache_n": reused, "prompt_n": len(prompt) - reused}
        answer = [prompt[-1] + 1 + at for at in range(body["n_predict"])]
        self.slots[slot] = prompt + answer[:-1]
        final = {"content": "", "tokens": [], "stop": True, "timings": timings}
        if not body.get("stream"):
            return JSONResponse({**final, "tokens": answer})
        events = [{"content": "x", "tokens": [token], "stop": False} for token in answer]
        return StreamingResponse(self._events([*events, final], slot), media_type=EVENT_STREAM)

    async def _events(self, events, slot):
        self.busy.add(slot)
        for event in events:
            yield f"data: {json.dumps(event)}\n\n"
        self.busy.discard(slot)


EVENT_STREAM = "text/event-stream"


def _agreeing(left: list[int], right: list[int]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
