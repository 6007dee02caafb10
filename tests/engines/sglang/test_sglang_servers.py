"""Two real servers, one store: what one has computed the other one loads, whatever befalls."""

from __future__ import annotations

import mmap
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from checkpoint import make_checkpoint
from engines.servers import wait_until
from instances import PAGE_TOKENS, PATIENCE_S, Answer, Instance, page_hashes, pages_of, prompt
from storm import Storm

from gd2fs import Client
from gd2fs.testing import Cluster

PROMPT_TOKENS = 800
KNOWN = 12  # prompts that are asked under faults: more than the device and the host have room for
KNOWN_TOKENS = 480
DEVICE_TOKENS = 2048
PAGE = 18  # of a prompt, that is damaged: more than a lookup has to hit are before it
ANSWERS = 12  # that a fault has to last
WAIT_MAX_S = 40.0  # of a request on a busy machine: computing, and a deadline of each kind
DEADLINES = {"lookup_timeout_s": 4.0, "load_timeout_s": 4.0, "store_timeout_s": 4.0}

pytestmark = pytest.mark.timeout(900)  # the first one waits for servers, on a busy machine


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
    memory = folder / "arena"
    with Cluster(1, "128MiB", str(folder), arena=f"file:{memory}") as cluster:
        settings = {"cp": cluster.cp, "cluster": cluster.name, "never_slower": False, **DEADLINES}
        room = {"device_tokens": DEVICE_TOKENS}
        kept = Instance("kept", model, folder, **room)
        stateless = Instance("stateless", model, folder, store=settings, is_stateless=True, **room)
        try:
            for each in (kept, stateless):
                each.server.launch()
            for each in (kept, stateless):
                each.server.wait_healthy()
            kept.attach(settings)
            yield Site(kept, stateless, cluster, memory, settings)
        finally:
            with ThreadPoolExecutor() as pool:  # each takes seconds to end
                list(pool.map(lambda each: each.server.stop(), (kept, stateless)))


def forget(memory: Path) -> None:
    """Remove what a node keeps; it begins empty then."""
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
    for each in site.both():
        each.flush()  # refused as long as anything is still to be stored
    with site.client() as client:
        client.pages("other").put([b"page"], [b"kept"])
        pages = client.pages(site.kept.namespace())
        had = len(pages.list().entries)
        site.kept.clear()
        left = len(pages.list().entries)

        assert had and (left, client.pages("other").exists([b"page"]).present) == (0, [True])
    for each in site.both():
        answer = each.ask(tokens)
        assert (answer.tokens, answer.stored) == (first.tokens, 0)
        each.flush()
        each.clear()


def test_what_is_quicker_to_compute_is_not_loaded(site):
    tokens = prompt(8, PROMPT_TOKENS)
    first = computed(site.stateless, tokens)
    site.kept.detach()
    site.kept.attach(site.settings | {"never_slower": True, "prefill_tokens_per_s": 1e12})
    refused = site.kept.metric("gate_refused_total")
    answers: list[Answer] = []

    def is_computed() -> bool:
        site.kept.flush()
        answers.append(site.kept.ask(tokens))
        return answers[-1].stored == 0

    wait_until(is_computed, PATIENCE_S, "computed")  # what was not tried for a while is loaded
    refused = site.kept.metric("gate_refused_total") - refused
    site.kept.detach()
    site.kept.attach(site.settings)

    assert answers[0].stored == pages_of(PROMPT_TOKENS) * PAGE_TOKENS  # nothing was known yet
    assert [each.tokens for each in answers] == [first.tokens] * len(answers)
    assert refused >= 1


def test_both_rates_are_seen_and_shown(site):
    computed(site.stateless, prompt(9, PROMPT_TOKENS))
    rates = ("load_bytes_per_second", "compute_tokens_per_second")

    assert all(site.stateless.metric(name) > 0 for name in rates)


def test_both_servers_have_one_namespace(site):
    assert site.kept.namespace() == site.stateless.namespace()


# ---- faults, under load ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(site: Site) -> list[tuple[list[int], list[int]]]:
    """Prompts, and what a server answers that has all of their cache."""
    prompts = [prompt(100 + at, KNOWN_TOKENS) for at in range(KNOWN)]
    answers = []
    for each in prompts:
        computed(site.kept, each)
        answers.append(site.kept.ask(each))
    assert all(each.cached for each in answers)
    return [(each, answer.tokens) for each, answer in zip(prompts, answers, strict=True)]


def assert_all_was_answered(storm: Storm, site: Site) -> None:
    assert storm.faults == []
    assert storm.slowest_s() < WAIT_MAX_S
    assert all(each.server.is_healthy() for each in site.both())


def assert_pages_are_shared_again(site: Site, seed: int) -> None:
    """Without anybody's help, within a while."""
    numbers = iter(range(1000 * seed, 1000 * seed + 1000))

    def is_shared() -> bool:
        tokens = prompt(next(numbers), 320)
        site.kept.ask(tokens)
        wanted = pages_of(320) * PAGE_TOKENS
        answers = [site.stateless.ask([*tokens[:-1], last]) for last in (7, 8)]
        return max(each.stored for each in answers) == wanted

    wait_until(is_shared, PATIENCE_S, "shared again")


def test_under_load_pages_come_from_the_store(site, known):
    with Storm(site.both(), known) as storm:
        storm.wait_more(2 * ANSWERS)

    assert_all_was_answered(storm, site)
    assert sum(each.stored for each in storm.answers) > 0


def test_a_store_that_is_killed_and_comes_back_empty(site, known):
    node = site.cluster.members[0]
    with Storm(site.both(), known) as storm:
        storm.wait_more(4)
        node.kill()
        storm.wait_more(ANSWERS)
        assert all(each.server.is_healthy() for each in site.both())
        forget(site.memory)
        node.start()
        storm.wait_more(ANSWERS)

    assert_all_was_answered(storm, site)
    assert_pages_are_shared_again(site, 1)


def test_a_store_that_hangs_for_a_while(site, known):
    node = site.cluster.members[0]
    with Storm(site.both(), known) as storm:
        storm.wait_more(4)
        node.send(signal.SIGSTOP)
        storm.wait_more(ANSWERS)
        assert all(each.server.is_healthy() for each in site.both())
        node.send(signal.SIGCONT)
        storm.wait_more(4)

    assert_all_was_answered(storm, site)
    assert_pages_are_shared_again(site, 2)


def test_a_store_without_room(site, known):
    quota = f"namespace.{site.kept.namespace()}.quota"
    failures = sum(each.metric("store_failures_total") for each in site.both())
    with site.client() as client, Storm(site.both(), known) as storm:
        storm.wait_more(4)
        client.settings({"do": "set", "key": quota, "value": "32KiB"})  # less than one page
        storm.wait_more(ANSWERS)
        fresh = site.kept.ask(prompt(50, PROMPT_TOKENS))
        wait_until(
            lambda: sum(each.metric("store_failures_total") for each in site.both()) > failures,
            PATIENCE_S,
            "refused",
        )
        client.settings({"do": "set", "key": quota, "value": None})

    assert_all_was_answered(storm, site)
    assert fresh.stored == 0
    assert_pages_are_shared_again(site, 3)


def test_pages_that_are_damaged_on_their_node(site, known):
    with Storm(site.both(), known) as storm:
        storm.wait_more(4)
        damaged = [damage(site, page_hashes(tokens)[PAGE]) for tokens, _ in known]
        storm.wait_more(2 * ANSWERS)

    assert any(damaged)  # those that the store has; faults before have cost it some
    assert_all_was_answered(storm, site)
    assert_pages_are_shared_again(site, 4)


def test_a_damaged_page_is_a_miss_and_what_is_before_it_a_hit(site):
    tokens = prompt(60, PROMPT_TOKENS)
    first = computed(site.kept, tokens)
    assert damage(site, page_hashes(tokens)[PAGE])
    for each in site.both():
        each.flush()
    answers = [each.ask(tokens) for each in (site.stateless, site.kept)]

    assert [each.tokens for each in answers] == [first.tokens] * 2
    assert answers[0].stored == PAGE * PAGE_TOKENS


def damage(site: Site, name: str) -> bool:
    """Change bytes of a page where its node has it; whether it has it."""
    with site.client() as client:
        pages = client.pages(site.kept.namespace())
        found = pages.list(limit=65_536).entries
        room, keys = bytearray(1 << 20), [key for key, _ in found if key.endswith(name.encode())]
        [size] = pages.get(keys, [room]).sizes if keys else [None]
    if size is None:
        return False
    with open(site.memory, "r+b") as file, mmap.mmap(file.fileno(), 0) as arena:
        at = arena.find(room[size // 2 : size // 2 + 1000])
        if at >= 0:
            arena[at : at + 5] = bytes(each ^ 0xFF for each in arena[at : at + 5])
    return at >= 0


def test_nothing_went_wrong_so_far(site):
    names = ("errors_total", "wrong_sizes_total")
    faults = {(each.server.name, name): each.metric(name) for each in site.both() for name in names}

    assert set(faults.values()) == {0.0}, faults
    assert all(each.server.is_healthy() for each in site.both())
