"""SGLang's own trees get back from GD2FS what another instance computed: plain, windows, states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from trees import PAGES, PLAIN, STATES, WINDOW, Trees, pages_of

CONFIGS = {"plain": PLAIN, "window": WINDOW, "states": STATES}
LAYOUTS = ("page_first", "page_first_direct", "layer_first")


@pytest.fixture
def trees(request: Any, store_settings: dict[str, Any]) -> Iterator[Trees]:
    """Trees of the configuration that the test names."""
    made = Trees(CONFIGS[request.param], store_settings)
    yield made
    made.close()


def of_kind(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("trees", names, indirect=True)


def same(restored: dict[str, dict[str, bytes]], computed: dict[str, dict[str, bytes]]) -> bool:
    """Whether there is something of every pool, and all of it is what was computed."""
    return all(restored.values()) and all(
        page == computed[pool][key]
        for pool, pages in restored.items()
        for key, page in pages.items()
    )


@of_kind("plain", "window", "states")
def test_a_fresh_instance_restores_all_pools_byte_for_byte(trees):
    sequence = trees._make_seq(1, PAGES)
    computed = trees.produce(trees.new(), sequence)
    fresh = trees.new()[0]
    hit = trees.prefetch(fresh, sequence)

    assert hit == len(sequence)
    assert same(pages_of(fresh), computed)


@of_kind("plain")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("interface_v1", [0, 1])
def test_every_layout_comes_back_in_place_and_copied(trees, layout, interface_v1):
    sequence, options = trees._make_seq(1, PAGES), {"layout": layout, "interface_v1": interface_v1}
    computed = trees.produce(trees.new(**options), sequence)
    fresh = trees.new(**options)[0]
    hit = trees.prefetch(fresh, sequence)

    assert hit == len(sequence)
    assert same(pages_of(fresh), computed)


@of_kind("plain", "window", "states")
def test_of_a_longer_prompt_the_part_that_was_computed_is_restored(trees):
    sequence = trees._make_seq(1, PAGES)
    begun = sequence[: len(sequence) // 2]
    computed = trees.produce(trees.new(), begun)
    fresh = trees.new()[0]
    hit = trees.prefetch(fresh, sequence)

    assert hit == len(begun)
    assert same(pages_of(fresh), computed)


@of_kind("window")
def test_a_span_ends_where_the_window_before_its_end_is_whole(trees, nodes):
    sequence = trees._make_seq(1, PAGES)
    producer = trees.new()
    computed = trees.produce(producer, sequence)
    drop_page(trees, producer[0], nodes, pool="swa", page=PAGES - 2)
    fresh = trees.new()[0]
    hit = trees.prefetch(fresh, sequence)

    assert hit == (PAGES - 2) * trees.cfg.page_size
    assert same(pages_of(fresh), computed)


@of_kind("states")
def test_without_its_state_nothing_of_a_span_is_restored(trees, nodes):
    sequence = trees._make_seq(1, PAGES)
    producer = trees.new()
    trees.produce(producer, sequence)
    drop_page(trees, producer[0], nodes, pool="mamba", page=PAGES - 1)
    fresh = trees.new()[0]

    assert trees.prefetch(fresh, sequence) == 0


@of_kind("plain")
def test_a_page_in_the_middle_that_is_gone_ends_the_hit(trees, nodes):
    sequence = trees._make_seq(1, PAGES)
    producer = trees.new()
    computed = trees.produce(producer, sequence)
    drop_page(trees, producer[0], nodes, pool="kv", page=3)
    fresh = trees.new()[0]
    hit = trees.prefetch(fresh, sequence)

    assert hit == 3 * trees.cfg.page_size
    assert same(pages_of(fresh), computed)


@of_kind("plain", "window")
def test_an_instance_without_a_host_cache_stores_and_restores(trees):
    sequence = trees._make_seq(1, PAGES)
    fixture = trees.new(mode="buffer_only")
    trees._insert(*fixture, sequence)
    leaf = trees.leaf(fixture[0], sequence)
    trees._buffer_backup_and_wait(fixture[0], leaf)
    fresh = trees.new(mode="buffer_only")[0]

    assert trees.device_hit_after_prefetch(fresh, sequence) == len(sequence)


@of_kind("plain")
@pytest.mark.parametrize(
    "other",
    [
        {"weights": "others"},
        {"tag": "another"},
        {"layout": "page_first_direct"},
        {"interface_v1": 0},
    ],
    ids=str,
)
def test_instances_that_differ_share_nothing(trees, other):
    sequence = trees._make_seq(1, PAGES)
    trees.produce(trees.new(), sequence)

    assert trees.prefetch(trees.new(**other)[0], sequence) == 0


@of_kind("plain")
def test_another_data_type_of_the_same_size_shares_nothing(trees):
    sequence = trees._make_seq(1, PAGES)
    trees.produce(trees.new(), sequence)
    trees.cfg = replace(trees.cfg, dtype=torch.float16)

    assert trees.prefetch(trees.new()[0], sequence) == 0


@of_kind("plain")
def test_an_instance_of_another_size_shares_all(trees):
    sequence = trees._make_seq(1, PAGES)
    trees.produce(trees.new(), sequence)
    trees.cfg = replace(trees.cfg, kv_size=512)

    assert trees.prefetch(trees.new()[0], sequence) == len(sequence)


def drop_page(trees: Trees, tree: Any, nodes: Any, *, pool: str, page: int) -> None:
    """Have the store forget one page that a tree has stored."""
    name = trees.hashes(tree)[page].encode()
    with nodes.client() as client:
        pages = client.pages(trees.backend(tree).identity.namespace())
        keys = [key for key, _ in pages.list(limit=65_536).entries]
        [key] = [key for key in keys if key.endswith(name) and key.startswith(f"{pool}-".encode())]
        pages.drop([key])
