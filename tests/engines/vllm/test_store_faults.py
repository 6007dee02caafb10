"""Whatever becomes of the store under load, servers answer, with the tokens of a kept cache."""

from __future__ import annotations

import mmap
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from engines.servers import wait_until
from engines.vllm.instances import hang
from engines.vllm.peers import PATIENCE_S, Peer, prompt_of

from gd2fs import Client
from gd2fs.testing import Cluster

PROMPTS = 4  # asked for at the same time
PROMPT_TOKENS = 200
ANSWER_TOKENS = 8
NEEDLE_BYTES = 256

pytestmark = pytest.mark.timeout(900)  # the first one may start two servers

_seeds = count(100)

Ask = Callable[[], list[list[int]]]


@pytest.fixture
def kept(peers: tuple[Peer, Peer], tokenizer: Any) -> tuple[Ask, list[list[int]]]:
    """How to ask the second server for what the first one has kept, and what that says."""
    first, second = peers
    prompts = [prompt_of(tokenizer, next(_seeds), PROMPT_TOKENS) for _ in range(PROMPTS)]
    said = [first.keep(prompt, ANSWER_TOKENS) for prompt in prompts]

    def ask() -> list[list[int]]:
        with ThreadPoolExecutor(PROMPTS) as pool:
            answers = pool.map(lambda prompt: second.ask(prompt, ANSWER_TOKENS), prompts)
            is_healthy = second.is_healthy()
            said = list(answers)
        assert is_healthy and second.is_healthy()
        return said

    return ask, said


@pytest.fixture
def recovers(peers: tuple[Peer, Peer], tokenizer: Any) -> Iterator[None]:
    """After the test: what the first server computes, the second one has again."""
    yield
    first, second = peers

    def is_shared() -> bool:
        prompt = prompt_of(tokenizer, next(_seeds), PROMPT_TOKENS)
        before = second.hits()
        first.ask(prompt, 1)
        second.ask(prompt, 1)
        return second.hits() > before

    wait_until(is_shared, PATIENCE_S, "the servers share again")


@pytest.fixture
def client(store: Cluster) -> Iterator[Client]:
    with Client(store.cp, cluster=store.name, timeout_s=PATIENCE_S) as client:
        yield client


@pytest.mark.usefixtures("recovers")
def test_the_store_is_killed(kept: tuple[Ask, list[list[int]]], store: Cluster) -> None:
    ask, said = kept
    store.members[0].kill()
    try:
        assert ask() == said
    finally:
        store.members[0].start()


@pytest.mark.usefixtures("recovers")
def test_the_store_hangs(kept: tuple[Ask, list[list[int]]], store: Cluster) -> None:
    ask, said = kept
    hang(store.members[0])
    try:
        assert ask() == said
    finally:
        store.members[0].send(signal.SIGCONT)


@pytest.mark.usefixtures("recovers")
def test_the_store_is_full(
    kept: tuple[Ask, list[list[int]]], peers: tuple[Peer, Peer], client: Client
) -> None:
    ask, said = kept
    quota = f"namespace.{peers[0].namespace}.quota"
    limit(client, quota, "64KiB")  # less than one page
    try:
        assert ask() == said
    finally:
        limit(client, quota, None)


def limit(client: Client, quota: str, value: str | None) -> None:
    """Set a quota on all nodes, or take it away."""
    (reply,) = client.settings({"do": "set", "key": quota, "value": value})
    assert reply.value is not None and "error" not in reply.value, reply


@pytest.mark.usefixtures("recovers")
def test_the_store_restarts_empty(
    kept: tuple[Ask, list[list[int]]], store: Cluster, arena: Path
) -> None:
    ask, said = kept
    node = store.members[0]
    node.kill()
    arena.unlink()
    node.start()

    assert ask() == said


@pytest.mark.usefixtures("recovers")
def test_pages_are_corrupted_on_a_node(
    kept: tuple[Ask, list[list[int]]], peers: tuple[Peer, Peer], client: Client, arena: Path
) -> None:
    ask, said = kept
    second = peers[1]
    pages = client.pages(peers[0].namespace)
    with open(arena, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for key, size in pages.list(limit=10_000).entries:
            content = bytearray(size)
            assert pages.get([key], [content]).sizes == [size]
            at = memory.find(content[:NEEDLE_BYTES])
            assert at >= 0
            memory[at] ^= 0xFF
    before = second.counter("vllm:kv_offload_gd2fs_failed_loads_total")

    assert ask() == said
    assert second.counter("vllm:kv_offload_gd2fs_failed_loads_total") > before
