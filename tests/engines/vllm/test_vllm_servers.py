"""Two servers share a cache: what one computed, the other loads, and says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engines.servers import ServerFault
from engines.vllm.peers import CHUNK_TOKENS, Peer, prompt_of

from gd2fs.testing import Cluster

SHARE_MIN = 0.95  # of whole chunks

pytestmark = pytest.mark.timeout(900)  # the first one starts two servers, on a busy machine


def whole(tokens: int) -> int:
    """Tokens of the whole chunks of so many."""
    return tokens // CHUNK_TOKENS * CHUNK_TOKENS


def test_a_fresh_server_has_the_prompt_of_another(peers: tuple[Peer, Peer], tokenizer: Any) -> None:
    first, second = peers
    prompt = prompt_of(tokenizer, 1, 800)
    kept = first.keep(prompt)
    said = second.ask(prompt, len(kept))

    assert second.hits() >= SHARE_MIN * whole(800)
    assert said == kept


def test_a_server_that_forgot_all_has_it_again(peers: tuple[Peer, Peer], tokenizer: Any) -> None:
    _, second = peers
    prompt = prompt_of(tokenizer, 2, 400)
    kept = second.keep(prompt)
    before = second.hits()
    second.forget()
    said = second.ask(prompt, len(kept))

    assert second.hits() - before >= SHARE_MIN * whole(400)
    assert said == kept


def test_an_answer_is_part_of_the_next_prompt(peers: tuple[Peer, Peer], tokenizer: Any) -> None:
    first, second = peers
    prompt = prompt_of(tokenizer, 3, 300)
    answer = first.store(prompt, 150)
    longer = [*prompt, *answer, *prompt_of(tokenizer, 4, 40)]
    kept = first.ask(longer)
    before = second.hits()
    said = second.ask(longer, len(kept))

    assert second.hits() - before >= SHARE_MIN * whole(len(longer))
    assert said == kept


def test_prompts_that_part_share_what_comes_before_to_the_chunk(
    peers: tuple[Peer, Peer], tokenizer: Any
) -> None:
    first, second = peers
    prompt = prompt_of(tokenizer, 5, 400)
    first.keep(prompt)
    before = second.hits()
    second.ask([*prompt[: 3 * CHUNK_TOKENS + 5], *prompt_of(tokenizer, 6, 100)], 1)

    assert second.hits() - before == 3 * CHUNK_TOKENS


def test_the_metrics_of_a_server_tell_what_its_tier_does(peers: tuple[Peer, Peer]) -> None:
    _, second = peers

    assert second.counter("vllm:kv_offload_gd2fs_hits_total") > 0
    assert second.counter("vllm:kv_offload_gd2fs_misses_total", reason="absent") > 0
    assert second.counter("vllm:kv_offload_gd2fs_standing") == 1


def test_a_server_that_hashes_otherwise_does_not_start(
    peers: tuple[Peer, Peer], model: str, store: Cluster, tmp_path: Path
) -> None:
    other = Peer("other", model, store, tmp_path, variables={"PYTHONHASHSEED": "7"})
    with pytest.raises(ServerFault), other.server:
        pass
    said = other.server.log.read_text(errors="replace")

    assert "seed: recorded none, here" in said and "PYTHONHASHSEED" in said
