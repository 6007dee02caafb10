"""Server: one instance in this process: engine, store and front, from start to end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any

import uvicorn

from gd2fs import Client
from gd2fs.engines.llamacpp.bounce import BounceDirectory, bounce_root
from gd2fs.engines.llamacpp.conversation import Conversation
from gd2fs.engines.llamacpp.counts import Counts
from gd2fs.engines.llamacpp.front import RunTurn, make_app
from gd2fs.engines.llamacpp.namespace import namespace_of
from gd2fs.engines.llamacpp.native import Engine
from gd2fs.engines.llamacpp.settings import EngineSettings
from gd2fs.engines.llamacpp.slots import SlotPool
from gd2fs.engines.llamacpp.store import ConversationStore, FileStore
from gd2fs.engines.llamacpp.turn import Turns, forward
from gd2fs.engines.llamacpp.upstream import EngineServer
from gd2fs.errors import InvalidRequest, Unavailable

log = logging.getLogger("gd2fs.llamacpp")

STOP_S = 5  # for answers under way when the instance is told to end


def serve(settings: EngineSettings) -> None:
    """Run one instance until SIGTERM or SIGINT. Prints one line that starts with `ready`.

    Raises:
        InvalidRequest: A setting is wrong, the model cannot be loaded, or the port is taken.
    """
    with _bound(settings) as listener, BounceDirectory(bounce_root()) as bounce:
        engine = Engine(settings, bounce.path)
        asyncio.run(_serve(settings, engine, bounce, listener))


async def _serve(
    settings: EngineSettings, engine: Engine, bounce: BounceDirectory, listener: socket.socket
) -> None:
    counts = Counts()
    host, port = listener.getsockname()[:2]
    facts: dict[str, Any] = {"model": settings.model, "slots": settings.slots}
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(EngineServer(engine.address))
        if settings.has_store:
            store = _store(settings, namespace_of(settings.model))
            stack.callback(store.close)
            turns = Turns(server, SlotPool(settings.slots), store, bounce, counts)
            stack.push_async_callback(turns.finish_saving)
            run_turn: RunTurn = turns.run
            facts["namespace"] = store.namespace
        else:
            run_turn = partial(_forward, server, counts)
        config = uvicorn.Config(
            make_app(run_turn, server, counts, facts),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=STOP_S,
        )
        front = _FrontServer(config)
        front.end_on_signals()  # before `ready`: whoever reads that may send one at once
        print(f"ready address=http://{host}:{port}", flush=True)
        await front.serve(sockets=[listener])


class _FrontServer(uvicorn.Server):
    """Ends on SIGTERM and SIGINT, then returns; the original raises the signal again."""

    def end_on_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are ours already


def _forward(
    server: EngineServer, counts: Counts, path: str, body: Any, _: Conversation | None
) -> Any:
    return forward(server, counts, path, body)


def _store(settings: EngineSettings, namespace: str) -> ConversationStore:
    def connect() -> FileStore:
        return Client(settings.cp, cluster=settings.cluster, timeout_s=settings.store_timeout_s)

    store = ConversationStore(connect, namespace=namespace, timeout_s=settings.store_timeout_s)
    try:
        store.open()
    except Unavailable as error:
        log.warning("the store is away, answering without it: %s", error)
    return store


def _bound(settings: EngineSettings) -> socket.socket:
    try:
        return socket.create_server((settings.host, settings.port), backlog=256)
    except OSError as error:
        raise InvalidRequest(
            f"cannot serve at {settings.host}:{settings.port}: {error.strerror}",
            hint="pass another `--port`; 0 takes a free one",
        ) from error
