"""Turn: one request through the engine: restore, complete, save; then the last event may leave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from gd2fs.engines.llamacpp.bounce import BounceDirectory
from gd2fs.engines.llamacpp.conversation import Conversation
from gd2fs.engines.llamacpp.counts import Counts
from gd2fs.engines.llamacpp.slots import SlotPool
from gd2fs.engines.llamacpp.store import ConversationStore, Fetched
from gd2fs.engines.llamacpp.upstream import EngineServer, Timings, events_of, part_of
from gd2fs.errors import GD2FSError

log = logging.getLogger("gd2fs.llamacpp")

EVENT_STREAM = "text/event-stream"


@dataclass
class Turns:
    """Runs turns; what all turns of an instance share. For one event loop."""

    engine: EngineServer
    slots: SlotPool
    store: ConversationStore
    bounce: BounceDirectory
    counts: Counts
    _saving: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(
        self, path: str, body: Mapping[str, Any], conversation: Conversation | None
    ) -> AsyncGenerator[Answer | bytes, None]:
        """Run one turn.

        Yields:
            The engine's ``Answer`` first, then the bytes of its body. The last ones come when the
            turn is saved. Close the generator to give the turn up.

        Raises:
            Unavailable: No slot became free.
            httpx.HTTPError: The engine broke off.
        """
        slot = await self.slots.take()
        saving: asyncio.Task[None] | None = None
        try:
            restored = await self._restore(slot, conversation)
            asked = {**body, "id_slot": slot, "cache_prompt": True}
            async with self.engine.complete(path, asked) as response:
                relay = Relay(response)
                yield relay.answer
                async for chunk in relay.all_but_the_end():
                    yield chunk
            if relay.is_complete:
                self._count(relay.timings, conversation)
                if conversation is not None:
                    saving = self._start_saving(slot, conversation, restored)
                    # The state is kept even when the client leaves now.
                    await asyncio.shield(saving)
            yield relay.end
        finally:
            if saving is None or saving.done():
                self.slots.give(slot)
            else:
                saving.add_done_callback(lambda _: self.slots.give(slot))

    async def finish_saving(self) -> None:
        """Wait until every save under way has ended."""
        await asyncio.gather(*self._saving, return_exceptions=True)

    async def _restore(self, slot: int, conversation: Conversation | None) -> Fetched | None:
        if conversation is None:
            return None
        with self.bounce.new_file() as file:
            try:
                fetched = await asyncio.to_thread(self.store.fetch, conversation.sought, file)
                if fetched is None:
                    self.counts.restore_misses += 1
                    return None
                restored = await self.engine.restore(slot, file.name)
            except Exception as error:  # as in `_save`
                self.counts.restore_failures += 1
                _log_failure("not restored, computing instead", error)
                return None
        self.counts.restores += 1
        self.counts.restored_bytes += restored.size_bytes
        self.counts.restored_tokens += restored.tokens
        return fetched

    def _start_saving(
        self, slot: int, conversation: Conversation, restored: Fetched | None
    ) -> asyncio.Task[None]:
        saving = asyncio.create_task(self._save(slot, conversation, restored))
        self._saving.add(saving)
        saving.add_done_callback(self._saving.discard)
        return saving

    async def _save(self, slot: int, conversation: Conversation, restored: Fetched | None) -> None:
        with self.bounce.new_file() as file:
            try:
                await self.engine.save(slot, file.name)
                count = await asyncio.to_thread(self.store.keep, conversation.kept_as, file)
            except Exception as error:  # whatever is wrong with the store costs no answer
                self.counts.save_failures += 1
                _log_failure("not saved", error)
                return
        self.counts.saves += 1
        self.counts.saved_bytes += count
        if restored is not None and restored.name != conversation.kept_as:
            # What was just kept begins with all of it: one conversation, one file.
            await asyncio.to_thread(self.store.forget, restored.name)

    def _count(self, timings: Timings | None, conversation: Conversation | None) -> None:
        self.counts.turns += 1
        self.counts.turns_unnamed += conversation is None
        if timings is not None:
            self.counts.reused_tokens += timings.cache_n
            self.counts.computed_tokens += timings.prompt_n


def _log_failure(what: str, error: Exception) -> None:
    is_expected = isinstance(error, GD2FSError | OSError)
    log.warning("%s: %s", what, error, exc_info=None if is_expected else error)


@dataclass(frozen=True, slots=True)
class Answer:
    """Head of the engine's answer."""

    status: int
    content_type: str


class Relay:
    """The body of the engine's answer, cut where it is complete.

    Attributes:
        end: What must not leave before the turn is saved; known when all before it was read.
        is_complete: Whether the engine finished the answer.
        timings: The engine's counts, when it gave them.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.answer = Answer(response.status_code, response.headers.get("content-type", ""))
        self.end = b""
        self.is_complete = False
        self.timings: Timings | None = None

    async def all_but_the_end(self) -> AsyncIterator[bytes]:
        """Events as they come, up to the final one; of an answer in one piece nothing."""
        if self.answer.status != 200:
            self.end = await self._response.aread()
        elif self.answer.content_type.startswith(EVENT_STREAM):
            async for event in events_of(self._response.aiter_raw()):
                self._read(event)
                if self.is_complete:
                    self.end += event
                else:
                    yield event
        else:
            self.end = await self._response.aread()
            self._read(self.end)

    def _read(self, text: bytes) -> None:
        part = part_of(text)
        self.is_complete = self.is_complete or part.is_final
        self.timings = part.timings or self.timings


async def forward(
    engine: EngineServer, counts: Counts, path: str, body: Mapping[str, Any]
) -> AsyncGenerator[Answer | bytes, None]:
    """Run a turn on whatever slot and private cache the engine chooses; as ``Turns.run`` yields."""
    async with engine.complete(path, {**body, "cache_prompt": True}) as response:
        relay = Relay(response)
        yield relay.answer
        async for chunk in relay.all_but_the_end():
            yield chunk
    if relay.is_complete:
        counts.turns += 1
        if relay.timings is not None:
            counts.reused_tokens += relay.timings.cache_n
            counts.computed_tokens += relay.timings.prompt_n
    yield relay.end
