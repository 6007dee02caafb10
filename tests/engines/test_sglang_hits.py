"""Hits: a span ends only where every pool can serve it."""

from __future__ import annotations

import itertools

import pytest

from gd2fs.engines.sglang.hits import (
    ALL_PAGES,
    BLOCK_GROUPS,
    TRAILING_PAGES,
    PoolPresence,
    span_hits,
)


def present(text: str) -> list[bool]:
    """One character for each page: `x` is there."""
    return [each == "x" for each in text]


def window(text: str, pages: int) -> PoolPresence:
    return PoolPresence("swa", TRAILING_PAGES, present(text), window_pages=pages)


def test_without_other_pools_any_end_of_the_kv_pages_will_do():
    assert span_hits(3, []).ends == [1, 2, 3]


def test_a_pool_of_all_pages_cuts_the_span_at_its_first_gap():
    hits = span_hits(4, [PoolPresence("indexer", ALL_PAGES, present("xx.x"))])

    assert (hits.pages, hits.ends, hits.reached) == (2, [1, 2], {"kv": 4, "indexer": 2})


def test_states_are_there_at_some_ends_only():
    hits = span_hits(6, [window(".x..x.", 1)])

    assert (hits.ends, hits.reached) == ([2, 5], {"kv": 6, "swa": 5})


def test_a_window_has_to_be_whole():
    assert span_hits(7, [window("xxx.xx.", 3)]).ends == [1, 2, 3]


def test_a_window_longer_than_the_span_is_all_of_it():
    assert span_hits(3, [window("xxx", 8)]).ends == [1, 2, 3]


def test_pages_behind_the_kv_pages_count_for_nothing():
    assert span_hits(2, [window("..xx", 1)]).ends == []


def test_all_pools_have_to_agree_on_an_end():
    pools = [window("x.xx", 1), PoolPresence("indexer", ALL_PAGES, present("xx.."))]

    assert span_hits(4, pools).ends == [1]


def test_block_groups_say_how_far_they_reach_and_limit_nobody():
    groups = PoolPresence(
        "deepseek_v4_c4", BLOCK_GROUPS, present("xxx.xx"), block_pages=4, group_keys=2
    )
    hits = span_hits(12, [groups])

    assert (hits.pages, hits.reached) == (12, {"kv": 12, "deepseek_v4_c4": 4})


def test_of_a_policy_that_is_not_known_nothing_is_promised():
    assert span_hits(3, [PoolPresence("new", "some_pages", present("xxx"))]).pages == 0


def test_nothing_there_is_nothing_reached():
    assert span_hits(0, [window("xxx", 1)]).reached == {}


@pytest.mark.parametrize("pages", [1, 2, 3])
def test_ends_are_those_that_a_search_finds(pages):
    for bits in itertools.product([False, True], repeat=6):
        hits = span_hits(5, [PoolPresence("swa", TRAILING_PAGES, bits, window_pages=pages)])

        assert hits.ends == [
            end for end in range(1, 6) if all(bits[at] for at in range(max(0, end - pages), end))
        ]
