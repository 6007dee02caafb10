"""Two real servers, one store: what one has computed the other one loads, whatever befalls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from checkpoint import make_checkpoint
from instances import PAGE_TOKENS, Answer, Instance, pages_of, prompt

from gd2fs import Client
from gd2fs.testing import Cluster

PROMPT_TOKENS = 800
DEADLINES = {"lookup_timeout_s": 2.0, "load_timeout_s": 4.0, "store_timeout_s": 4.0}


@dataclass
class Site:
    """Two servers and their store.

    Attributes:
        kept: Attached to the store after its start; keeps pages on the device and in host memory.
        stateless: Keeps nothing in host memory.
        cluster: The store: one node, whose memory is a file that can be looked into.
        memory: That file.
        settings: Of the plug-in.
    """

    kept: Instance
    stateless: Instance
    cluster: Cluster
    memory: Path
    settings: dict[str, Any] = field(default_factory=dict)

    def both(self) -> tuple[Instance, Instance]:
        return self.kept, self.stateless

    def client(self) -> Client:
        return Client(self.cluster.cp, cluster=self.cluster.name)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("servers")
    model = make_checkpoint(folder / "model")
    memory = Path("/dev/shm") / f"gd2fs-{folder.parent.name}-{folder.name}"
    with Cluster(1, "128MiB", str(folder), arena=f"file:{memory}") as cluster:
        settings = {"cp": cluster.cp, "cluster": cluster.name, "never_slower": False, **DEADLINES}
        kept = Instance("kept", model, folder)
        stateless = Instance("stateless", model, folder, store=settings, is_stateless=True)
        try:
            for each in (kept, stateless):
                each.server.launch()
            for each in (kept, stateless):
                each.server.wait_healthy()
            kept.attach(settings)
            yield Site(kept, stateless, cluster, memory, settings)
        finally:
            for each in (kept, stateless):
                each.server.stop()
            for left in memory.parent.glob(f"{memory.name}*"):
                left.unlink()


def computed(instance: Instance, tokens: list[int]) -> Answer:
    """Have a prompt computed and stored."""
    before = instance.metric("stored_pages_total")
    answer = instance.ask(tokens)
    instance.wait_stored(before + len(tokens) // PAGE_TOKENS)
    return answer


def test_a_fresh_server_loads_what_another_has_computed(site):
    tokens = prompt(1, PROMPT_TOKENS)
    first = computed(site.kept, tokens)
    loaded = site.stateless.ask(tokens)
    again = site.kept.ask(tokens)

    assert (first.cached, again.stored) == (0, 0)
    assert loaded.stored >= 0.95 * PROMPT_TOKENS
    assert loaded.stored == pages_of(PROMPT_TOKENS) * PAGE_TOKENS
    assert loaded.tokens == again.tokens == first.tokens


def test_after_a_flush_all_is_loaded_again(site):
    tokens = prompt(2, PROMPT_TOKENS)
    first = computed(site.stateless, tokens)
    answers = []
    for each in site.both():
        each.flush()
        answers.append(each.ask(tokens))

    assert [each.stored for each in answers] == [pages_of(PROMPT_TOKENS) * PAGE_TOKENS] * 2
    assert [each.tokens for each in answers] == [first.tokens] * 2


@pytest.mark.parametrize("shared_tokens", [20 * PAGE_TOKENS, 30 * PAGE_TOKENS + 5])
def test_what_is_shared_is_loaded_to_the_page(site, shared_tokens):
    begun = prompt(3 + shared_tokens, shared_tokens)
    computed(site.kept, [*begun, *prompt(4, 200)])
    site.stateless.flush()
    other = [*begun, *prompt(5, 200)]
    loaded = site.stateless.ask(other)

    assert loaded.stored == shared_tokens // PAGE_TOKENS * PAGE_TOKENS
    assert loaded.tokens == site.kept.ask(other).tokens


def test_a_server_can_be_detached_and_attached_while_it_runs(site):
    tokens = prompt(6, PROMPT_TOKENS)
    first = computed(site.stateless, tokens)
    site.kept.detach()
    alone = site.kept.ask(tokens)
    site.kept.attach(site.settings)
    site.kept.flush()
    loaded = site.kept.ask(tokens)

    assert (alone.stored, loaded.stored) == (0, pages_of(PROMPT_TOKENS) * PAGE_TOKENS)
    assert alone.tokens == loaded.tokens == first.tokens


def test_clear_forgets_the_namespace_and_nothing_else(site):
    tokens = prompt(7, PROMPT_TOKENS)
    first = computed(site.kept, tokens)
    with site.client() as client:
        client.pages("other").put([b"page"], [b"kept"])
        pages = client.pages(site.kept.namespace())
        had = len(pages.list().entries)
        site.kept.clear()
        left = len(pages.list().entries)

        assert had and (left, client.pages("other").exists([b"page"]).present) == (0, [True])
    for each in site.both():
        each.flush()
        answer = each.ask(tokens)
        assert (answer.tokens, answer.stored) == (first.tokens, 0)
        site.kept.clear()


def test_what_is_quicker_to_compute_is_not_loaded(site):
    tokens = prompt(8, PROMPT_TOKENS)
    first = computed(site.stateless, tokens)
    site.kept.detach()
    site.kept.attach(site.settings | {"never_slower": True, "prefill_tokens_per_s": 1e12})
    refused = site.kept.metric("gate_refused_total")
    site.kept.flush()
    tried = site.kept.ask(tokens)  # nothing is known of loading yet
    site.kept.flush()
    answer = site.kept.ask(tokens)
    refused = site.kept.metric("gate_refused_total") - refused
    site.kept.detach()
    site.kept.attach(site.settings)

    assert (tried.stored, answer.stored) == (pages_of(PROMPT_TOKENS) * PAGE_TOKENS, 0)
    assert answer.tokens == first.tokens
    assert refused >= 1


def test_both_servers_have_one_namespace(site):
    assert site.kept.namespace() == site.stateless.namespace()


def test_nothing_went_wrong_so_far(site):
    names = ("errors_total", "wrong_sizes_total")
    faults = {(each.server.name, name): each.metric(name) for each in site.both() for name in names}

    assert set(faults.values()) == {0.0}, faults
    assert all(each.server.is_healthy() for each in site.both())
