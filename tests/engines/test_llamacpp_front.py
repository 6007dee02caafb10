"""The front: restore, complete, save, and the last event after the save, whatever fails."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager

import httpx
import pytest
from engines.fake_llama import FakeLlama

from gd2fs.engines.llamacpp.bounce import BounceDirectory
from gd2fs.engines.llamacpp.conversation import Conversation
from gd2fs.engines.llamacpp.counts import Counts
from gd2fs.engines.llamacpp.front import make_app
from gd2fs.engines.llamacpp.slots import SlotPool
from gd2fs.engines.llamacpp.store import ConversationStore
from gd2fs.engines.llamacpp.turn import Turns
from gd2fs.engines.llamacpp.upstream import EngineServer
from gd2fs.errors import Unavailable
from gd2fs.testing import MemoryStore

PROMPT = [10, 20, 30]
CONVERSATION = Conversation(kept_as="c", sought=("c",))
DEADLINE_S = 20


class AwayStore(MemoryStore):
    """A store of which nobody answers."""

    def stat(self, path, **options):
        raise Unavailable("away")

    def put(self, path, buffers, **options):
        raise Unavailable("away")


class BrokenStore(MemoryStore):
    """A store with a mistake in it."""

    def stat(self, path, **options):
        raise TypeError("our mistake")

    def put(self, path, buffers, **options):
        raise TypeError("our mistake")


class GatedStore(MemoryStore):
    """Acknowledges puts only when the gate is open."""

    def __init__(self):
        super().__init__()
        self.is_asked, self.gate = threading.Event(), threading.Event()

    def put(self, path, buffers, **options):
        self.is_asked.set()
        assert self.gate.wait(DEADLINE_S)
        return super().put(path, buffers, **options)


class Front:
    """A front over a fake engine, and an HTTP client to it."""

    def __init__(self, llama, turns, http):
        self.llama, self.turns, self.http = llama, turns, http
        self.counts = turns.counts

    async def complete(self, prompt, session="s", **more):
        body = {"prompt": prompt, "n_predict": 3, "session": session, **more}
        return await self.http.post("/completion", json=body)


@asynccontextmanager
async def front_over(store, tmp_path, slots=2):
    with BounceDirectory(tmp_path) as bounce:
        llama = FakeLlama(bounce.path, slots)
        conversations = ConversationStore(lambda: store, namespace="n", timeout_s=DEADLINE_S)
        async with EngineServer("http://engine", llama.transport) as engine:
            turns = Turns(engine, SlotPool(slots), conversations, bounce, Counts())
            app = make_app(turns.run, engine, turns.counts, {"slots": slots})
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(base_url="http://front", transport=transport) as http:
                yield Front(llama, turns, http)
            await turns.finish_saving()


def play(store, tmp_path, work, **settings):
    """Run ``work`` with a front over ``store``; what it returns."""

    async def run():
        async with front_over(store, tmp_path, **settings) as front:
            return await asyncio.wait_for(work(front), DEADLINE_S)

    return asyncio.run(run())


def test_the_next_turn_computes_only_what_is_new(tmp_path):
    async def work(front):
        answer = (await front.complete(PROMPT)).json()["tokens"]
        front.llama.slots = [[], []]
        return (await front.complete([*PROMPT, *answer, 99])).json()["timings"]

    kept = len(PROMPT) + 3 - 1
    assert play(MemoryStore(), tmp_path, work) == {"cache_n": kept, "prompt_n": 2}


def test_another_session_finds_nothing(tmp_path):
    async def work(front):
        await front.complete(PROMPT, session="a")
        front.llama.slots = [[], []]
        await front.complete(PROMPT, session="b")
        return front.counts.restores, front.counts.restore_misses

    assert play(MemoryStore(), tmp_path, work) == (0, 2)


def test_a_stream_has_the_same_events_as_the_engine_sent(tmp_path):
    async def work(front):
        text = (await front.complete(PROMPT, stream=True)).text
        return [json.loads(line[6:]) for line in text.splitlines() if line]

    events = play(MemoryStore(), tmp_path, work)

    assert [event["tokens"] for event in events] == [[31], [32], [33], []]


def test_the_last_event_leaves_only_after_the_save_is_acknowledged(tmp_path):
    store = GatedStore()
    events = []

    async def listen(front):
        body = {"prompt": PROMPT, "n_predict": 2, "session": "s", "stream": True}
        async for part in front.turns.run("/completion", body, CONVERSATION):
            events.append(part)

    async def work(front):
        listening = asyncio.create_task(listen(front))
        await asyncio.to_thread(store.is_asked.wait, DEADLINE_S)
        before = [b'"stop":true' in bytes(e).replace(b" ", b"") for e in events[1:]]
        store.gate.set()
        await listening
        return before, b'"stop": true' in events[-1]

    assert play(store, tmp_path, work) == ([False, False], True)


@pytest.mark.parametrize("store", [AwayStore, BrokenStore])
def test_a_store_that_is_away_or_broken_costs_no_answer(tmp_path, store):
    async def work(front):
        answer = await front.complete(PROMPT)
        return answer.status_code, answer.json()["tokens"], front.counts

    status, tokens, counts = play(store(), tmp_path, work)

    assert (status, tokens) == (200, [31, 32, 33])
    assert (counts.restore_failures, counts.save_failures) == (1, 1)


@pytest.mark.parametrize(
    ("action", "count"), [("restore", "restore_failures"), ("save", "save_failures")]
)
def test_an_engine_that_refuses_a_slot_costs_no_answer(tmp_path, action, count):
    async def work(front):
        await front.complete(PROMPT)
        front.llama.refused.add(action)
        answer = await front.complete(PROMPT)
        return answer.json()["tokens"], getattr(front.counts, count)

    assert play(MemoryStore(), tmp_path, work) == ([31, 32, 33], 1)


def test_more_requests_than_slots_wait_their_turn(tmp_path):
    async def work(front):
        asked = (front.complete([n, n + 1], session=f"s{n}", stream=True) for n in range(10))
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert play(MemoryStore(), tmp_path, work) == [200] * 10


def test_no_transfer_leaves_a_file(tmp_path):
    async def work(front):
        await front.complete(PROMPT)
        await front.complete(PROMPT)
        return sorted(path.name for path in front.turns.bounce.path.iterdir())

    assert play(MemoryStore(), tmp_path, work) == ["lock"]


def test_a_refusal_of_the_engine_reaches_the_client_and_is_not_saved(tmp_path):
    async def work(front):
        answer = await front.complete([])
        return answer.status_code, answer.json()["error"]["message"], front.counts.saves

    assert play(MemoryStore(), tmp_path, work) == (400, "empty prompt", 0)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"prompt": [1], "n": 2}', b'{"prompt": [1], "session": 5}']
)
def test_a_request_that_cannot_be_is_refused(tmp_path, body):
    async def work(front):
        return (await front.http.post("/completion", content=body)).status_code

    assert play(MemoryStore(), tmp_path, work) == 400


def test_slots_are_out_of_the_clients_reach(tmp_path):
    async def work(front):
        return (await front.http.post("/slots/0?action=save", json={})).status_code

    assert play(MemoryStore(), tmp_path, work) == 404


def test_counts_are_shown_as_json_and_for_prometheus(tmp_path):
    async def work(front):
        await front.complete(PROMPT)
        stats, metrics = await front.http.get("/stats"), await front.http.get("/metrics")
        return stats.json()["saves"], "gd2fs_llamacpp_saves_total 1.0" in metrics.text

    assert play(MemoryStore(), tmp_path, work) == (1, True)


def test_a_turn_that_is_given_up_frees_its_slot_and_is_not_saved(tmp_path):
    async def work(front):
        body = {"prompt": PROMPT, "n_predict": 3, "stream": True}
        parts = front.turns.run("/completion", body, CONVERSATION)
        await anext(parts)
        await parts.aclose()
        front.llama.busy.clear()
        return (await front.complete(PROMPT)).status_code, front.counts.saves

    assert play(MemoryStore(), tmp_path, work, slots=1) == (200, 1)
