"""KubernetesApi: a small API server with Leases and ConfigMaps, strict where the real one is.

It counts versions, swaps only what is as it was, streams watches from any version that it has not
forgotten, and asks for a token. Tests break it: it hangs, fails, is slow, cuts watches, forgets.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NAMESPACE = "storage"
KINDS = {"configmaps": "ConfigMap", "leases": "Lease"}
VERSIONS = {"configmaps": "v1", "leases": "coordination.k8s.io/v1"}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
OBJECT_BYTES_MAX = 1 << 20
BOOKMARK_S = 1.0
STOP_S = 5.0

Object = dict[str, Any]


@dataclass
class Trouble:
    """What is wrong with requests to paths that have ``part`` in them, by methods ``methods``."""

    part: str = ""
    methods: tuple[str, ...] = ("GET", "PUT", "POST", "DELETE")
    status: int = 0  # it answers with this; 0: it does not answer
    slow_s: float = 0.0  # it answers after this, if that is over 0
    is_done: bool = False  # what was asked for is done all the same


@dataclass
class Event:
    version: int
    kind: str
    resource: str
    object: Object


class Refusal(Exception):
    """What is answered instead: a status, its reason and a message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status, self.reason, self.message = status, reason, message


@dataclass
class Objects:
    """All that is stored, under (resource, namespace, name), and what happened to it."""

    version: int = 1
    stored: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    forgotten: int = 0  # events up to here

    def read(self, key: tuple[str, str, str]) -> Object:
        if key not in self.stored:
            raise Refusal(404, "NotFound", f'{key[0]} "{key[2]}" not found')
        return self.stored[key]

    def create(self, key: tuple[str, str, str], body: Object) -> Object:
        if key[1] != NAMESPACE:
            raise Refusal(404, "NotFound", f'namespaces "{key[1]}" not found')
        if body["metadata"].get("resourceVersion"):
            raise Refusal(400, "BadRequest", "resourceVersion should not be set on objects")
        if key in self.stored:
            raise Refusal(409, "AlreadyExists", f'{key[0]} "{key[2]}" already exists')
        body["metadata"] |= {"uid": str(uuid.uuid4()), "namespace": key[1]}
        return self._store("ADDED", key, body)

    def replace(self, key: tuple[str, str, str], body: Object) -> Object:
        before, meta = self.read(key), body["metadata"]
        asked = meta.get("resourceVersion")
        if key[0] == "leases" and not asked:
            raise Refusal(422, "Invalid", "metadata.resourceVersion: must be specified")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", "the object has been modified")
        if meta.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "Precondition failed: UID in precondition")
        meta |= {each: before["metadata"][each] for each in ("uid", "namespace")}
        meta["resourceVersion"] = before["metadata"]["resourceVersion"]
        return before if body == before else self._store("MODIFIED", key, body)

    def delete(self, key: tuple[str, str, str], body: Object) -> Object:
        before = self.read(key)
        asked = body.get("preconditions", {}).get("resourceVersion")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise Refusal(409, "Conflict", "Precondition failed: resourceVersion")
        del self.stored[key]
        self.version += 1
        gone = json.loads(json.dumps(before))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(Event(self.version, "DELETED", key[0], gone))
        return before

    def forget(self) -> None:
        """No watch can begin before now."""
        self.forgotten = self.version
        self.events.clear()

    def _store(self, kind: str, key: tuple[str, str, str], body: Object) -> Object:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.stored[key] = body
        self.events.append(Event(self.version, kind, key[0], body))
        return body


def check(resource: str, name: str, body: Object) -> None:
    """Refuse what the real one would."""
    meta = body.get("metadata", {})
    if body.get("kind") != KINDS[resource] or body.get("apiVersion") != VERSIONS[resource]:
        raise Refusal(400, "BadRequest", f"no {KINDS[resource]} of {VERSIONS[resource]}")
    if not NAME.fullmatch(name) or len(name) > 253 or meta.get("name") != name:
        raise Refusal(422, "Invalid", f"metadata.name: {name!r}")
    labels, notes = meta.get("labels", {}), meta.get("annotations", {})
    if not all(LABEL_KEY.fullmatch(each) for each in (*labels, *notes)):
        raise Refusal(422, "Invalid", "metadata.labels: keys")
    if not all(LABEL.fullmatch(each) for each in labels.values()):
        raise Refusal(422, "Invalid", f"metadata.labels: {labels}")
    if resource == "leases":
        _check_lease(body.get("spec", {}))
    elif len(json.dumps(body.get("data", {}))) > OBJECT_BYTES_MAX:
        raise Refusal(422, "Invalid", "data: Too long")


def _check_lease(spec: Object) -> None:
    if spec.get("leaseDurationSeconds", 1) <= 0 or spec.get("leaseTransitions", 0) < 0:
        raise Refusal(422, "Invalid", "spec: must be greater than 0")
    if not MICRO_TIME.fullmatch(spec.get("renewTime", "2026-01-01T00:00:00.000000Z")):
        raise Refusal(400, "BadRequest", f"parsing time {spec.get('renewTime')}")
    if not isinstance(spec.get("holderIdentity", ""), str):
        raise Refusal(400, "BadRequest", "holderIdentity: not a string")


class KubernetesApi:
    """Serves on loopback from a thread. A context manager; ``stop`` and ``start`` keep the objects.

    Args:
        folder: The account of its clients is made there.
        host: Where it listens.
        port: 0: a free one.
        state: File that outlives this process; None: nothing does.
    """

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", port: int = 0, state: Path | None = None
    ) -> None:
        self.account = folder
        self.tokens = {"first-token"}
        self.objects = Objects()
        self.troubles: list[Trouble] = []
        self.asked: list[str] = []  # METHOD PATH of every request
        self.host, self.port = host, port
        self._state = state
        self._watches = 0
        self._cuts = 0
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text("first-token\n")
        self._load()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def watches(self) -> int:
        """How many are open."""
        return self._watches

    def rotate(self, token: str) -> None:
        """Take this token alone, and put it where clients find it."""
        (self.account / "token").write_text(token)
        self.tokens = {token}

    def cut_watches(self) -> None:
        """End all that are open."""
        self._cuts += 1

    def start(self) -> None:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((self.host, self.port))
        bound.listen(256)
        self.port = bound.getsockname()[1]
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=list(METHODS))])
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [bound]}, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End it with all its connections, as a kill would."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), "the API did not end"
        self._server = None

    def __enter__(self) -> KubernetesApi:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- requests ------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.asked.append(f"{request.method} {path}")
        try:
            trouble = next((each for each in self.troubles if _is_hit(each, request)), None)
            if trouble and not trouble.is_done and not trouble.slow_s:
                return await self._fail(trouble)
            if trouble:
                await asyncio.sleep(trouble.slow_s)
            self._check_token(request)
            answer = await self._do(request)
            return await self._fail(trouble) if trouble and trouble.is_done else answer
        except Refusal as refusal:
            return _status(refusal)

    async def _fail(self, trouble: Trouble) -> Response:
        while not trouble.status and trouble in self.troubles:
            await asyncio.sleep(0.02)
        raise Refusal(trouble.status or 500, "InternalError", "it is broken on purpose")

    def _check_token(self, request: Request) -> None:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            raise Refusal(401, "Unauthorized", "Unauthorized")

    async def _do(self, request: Request) -> Response:
        found = PATH.fullmatch(request.url.path)
        if not found:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        resource, name = found["resource"], found["name"] or ""
        key = (resource, found["namespace"], name)
        if request.method == "GET" and not name:
            if request.query_params.get("watch") == "true":
                return self._watch(request, resource)
            return self._list(resource)
        body = json.loads(await request.body() or b"{}")
        if request.method in ("POST", "PUT"):
            name = body.get("metadata", {}).get("name", "")
            check(resource, name, body)
        if request.method == "POST":
            key = (*key[:2], name)
        done = METHODS[request.method](self.objects, key, body)
        if request.method != "GET":
            self._save()
        return self._shown(request, done)

    def _list(self, resource: str) -> Response:
        items = [each for key, each in self.objects.stored.items() if key[0] == resource]
        meta = {"resourceVersion": str(self.objects.version)}
        return JSONResponse({"kind": f"{KINDS[resource]}List", "metadata": meta, "items": items})

    def _shown(self, request: Request, done: Object) -> Response:
        if "as=PartialObjectMetadata" in request.headers.get("accept", ""):
            done = {"kind": "PartialObjectMetadata", "metadata": done["metadata"]}
        return JSONResponse(done, status_code=201 if request.method == "POST" else 200)

    def _watch(self, request: Request, resource: str) -> Response:
        selector = request.query_params.get("fieldSelector", "")
        name = selector.removeprefix("metadata.name=")
        after = int(request.query_params["resourceVersion"])
        end_s = time.monotonic() + float(request.query_params.get("timeoutSeconds", "300"))
        return StreamingResponse(
            self._events(resource, name, after, end_s), media_type="application/json"
        )

    async def _events(
        self, resource: str, name: str, after: int, end_s: float
    ) -> AsyncIterator[str]:
        self._watches += 1
        cuts, marked_s = self._cuts, time.monotonic()
        try:
            while time.monotonic() < end_s and cuts == self._cuts and self._is_up():
                if after < self.objects.forgotten:
                    yield _line("ERROR", _gone(after))
                    return
                for event in [each for each in self.objects.events if each.version > after]:
                    after = event.version
                    if event.resource == resource and event.object["metadata"]["name"] == name:
                        yield _line(event.kind, event.object)
                if time.monotonic() - marked_s > BOOKMARK_S:
                    marked_s = time.monotonic()
                    mark = {"metadata": {"resourceVersion": str(self.objects.version)}}
                    after = self.objects.version
                    yield _line("BOOKMARK", mark)
                await asyncio.sleep(0.01)
        finally:
            self._watches -= 1

    def _is_up(self) -> bool:
        return self._server is not None and not self._server.should_exit

    # ---- what outlives it ----------------------------------------------------------------------

    def _save(self) -> None:
        if self._state:
            stored = [[*key, each] for key, each in self.objects.stored.items()]
            beside = self._state.with_suffix(".new")
            beside.write_text(json.dumps({"version": self.objects.version, "stored": stored}))
            beside.replace(self._state)

    def _load(self) -> None:
        if self._state and self._state.exists():
            kept = json.loads(self._state.read_text())
            self.objects.version = self.objects.forgotten = kept["version"]
            for resource, namespace, name, each in kept["stored"]:
                self.objects.stored[resource, namespace, name] = each


METHODS = {
    "GET": lambda objects, key, _: objects.read(key),
    "POST": Objects.create,
    "PUT": Objects.replace,
    "DELETE": Objects.delete,
}
PATH = re.compile(
    r"/(api/v1|apis/coordination\.k8s\.io/v1)/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<resource>configmaps|leases)(/(?P<name>[^/]+))?"
)


def _is_hit(trouble: Trouble, request: Request) -> bool:
    return trouble.part in str(request.url) and request.method in trouble.methods


def _status(refusal: Refusal) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": refusal.message,
        "reason": refusal.reason,
        "code": refusal.status,
    }
    return JSONResponse(body, status_code=refusal.status)


def _gone(after: int) -> Object:
    return {
        "kind": "Status",
        "reason": "Expired",
        "code": 410,
        "message": f"too old resource version: {after}",
    }


def _line(kind: str, body: Object) -> str:
    return json.dumps({"type": kind, "object": body}) + "\n"


def main(words: list[str]) -> None:
    """`HOST PORT ACCOUNT STATE`: serve until killed, with the objects that were there before."""
    host, port, account, state = words
    api = KubernetesApi(Path(account), host=host, port=int(port), state=Path(state))
    api.start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
