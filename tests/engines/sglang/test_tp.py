"""A server of two ranks: each has its part of every page, and both agree on what is there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from checkpoint import make_checkpoint
from engines.servers import wait_until
from instances import PAGE_TOKENS, PATIENCE_S, Instance, page_hashes, pages_of, prompt

from gd2fs.testing import LocalNodes

PROMPT_TOKENS = 800

pytestmark = pytest.mark.timeout(900)  # the first one waits for servers, on a busy machine


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, nodes: LocalNodes) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("tp")
    settings = {"cp": nodes.cp, "cluster": nodes.cluster, "never_slower": False, "tag": "tp"}
    deadlines = {"lookup_timeout_s": 4.0, "load_timeout_s": 4.0}
    instance = Instance(
        "two-ranks",
        make_checkpoint(folder / "model"),
        folder,
        store=settings | deadlines,
        options=["--tp-size", "2"],
        variables={"SGLANG_CPU_OMP_THREADS_BIND": "0|1"},  # of one memory, a core for each rank
    )
    with instance.server:
        yield instance


def test_both_parts_of_every_page_come_back(server):
    tokens = prompt(1, PROMPT_TOKENS)
    first = server.ask(tokens)
    server.wait_stored(2 * (PROMPT_TOKENS // PAGE_TOKENS))
    server.flush()
    loaded = server.ask(tokens)

    assert (first.cached, loaded.stored) == (0, pages_of(PROMPT_TOKENS) * PAGE_TOKENS)
    assert loaded.tokens == first.tokens


def test_a_part_that_one_rank_misses_is_missed_by_both(server, nodes):
    tokens = prompt(2, PROMPT_TOKENS)
    stored = server.metric("stored_pages_total")
    first = server.ask(tokens)
    server.wait_stored(stored + 2 * (PROMPT_TOKENS // PAGE_TOKENS))
    server.flush()
    name = page_hashes(tokens)[20].encode()
    with nodes.client() as client:
        pages = client.pages(server.namespace())
        keys = [key for key, _ in pages.list(limit=65_536).entries if key.endswith(name)]
        pages.drop([key for key in keys if b"/tp1-2" in key])
    answer = server.ask(tokens)

    assert len(keys) == 2
    assert (answer.stored, answer.tokens) == (20 * PAGE_TOKENS, first.tokens)
    assert server.metric("errors_total") == 0


def test_both_ranks_go_on_while_the_store_is_away(server, nodes):
    tokens = prompt(3, PROMPT_TOKENS)
    first = server.ask(tokens)
    server.flush()
    for index in range(len(nodes.peers)):
        nodes.stop(index)
    answers = [server.ask(tokens), server.ask([*tokens[:400], *prompt(4, 400)])]
    is_healthy = server.server.is_healthy()
    for index in range(len(nodes.peers)):
        nodes.start(index)

    assert (answers[0].tokens, [each.stored for each in answers]) == (first.tokens, [0, 0])
    assert is_healthy

    def is_found_again() -> bool:
        server.flush()
        return server.ask(tokens).stored == pages_of(PROMPT_TOKENS) * PAGE_TOKENS

    wait_until(is_found_again, PATIENCE_S, "stored and loaded again")
