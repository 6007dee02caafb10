"""Promises: what is promised counts until it is fetched, or until nobody will fetch it any more."""

from __future__ import annotations

import pytest

from gd2fs.engines.sglang.promises import PAGES_MAX, PATIENCE_S, Promises


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def promises(clock):
    promises = Promises(clock=clock)
    promises.add(["a", "b", "c"], page_bytes=100)
    return promises


def test_pages_count_until_they_are_fetched(promises):
    promises.keep(["b", "x"])

    assert promises.size() == 200


def test_a_page_is_promised_once(promises):
    promises.add(["c", "d"], page_bytes=100)

    assert promises.size() == 400


def test_what_nobody_fetches_is_forgotten(promises, clock):
    clock.now = PATIENCE_S / 2
    promises.add(["a"], page_bytes=100)
    clock.now = PATIENCE_S

    assert promises.size() == 100


def test_there_is_a_limit_to_what_is_remembered():
    promises = Promises()
    promises.add(map(str, range(2 * PAGES_MAX)), page_bytes=1)

    assert promises.size() == PAGES_MAX
