"""The checker's rules about pages."""

from __future__ import annotations

import pytest

from chaos.made_history import Made
from chaos.operation import UNSURE


@pytest.fixture
def made() -> Made:
    return Made()


def test_any_value_that_was_put_may_be_read_whole(made):
    one = made.do("page_put", 1, 2, length=64)
    made.do("page_put", 3, 4, length=32)
    made.page(5, 6, 64, (64, one.number, 0))

    assert made.rules == []


def test_a_value_without_an_acknowledgement_may_be_read(made):
    put = made.do("page_put", 1, 2, UNSURE, length=64, timeout_s=1.0)
    made.page(5, 6, 64, (64, put.number, 0))

    assert made.rules == []


def test_a_value_of_another_key_is_foreign(made):
    put = made.do("page_put", 1, 2, length=64, name="other")
    made.page(5, 6, 64, (64, put.number, 0))

    assert made.rules == ["a foreign page"]


def test_part_of_a_value_is_torn(made):
    put = made.do("page_put", 1, 2, length=64)
    made.page(5, 6, 32, (32, put.number, 0))

    assert made.rules == ["a torn page"]


def test_two_values_in_one_page_are_mixed(made):
    one = made.do("page_put", 1, 2, length=64)
    two = made.do("page_put", 1, 2, length=64)
    made.page(5, 6, 64, (32, one.number, 0), (32, two.number, 32))

    assert made.rules == ["a mixed page"]


def test_a_value_is_not_read_before_it_is_put(made):
    put = made.do("page_put", 5, 6, length=64)
    made.page(1, 2, 64, (64, put.number, 0))

    assert made.rules == ["a page from the future"]


def test_what_was_acknowledged_while_nothing_was_wrong_is_there(made):
    made.do("page_put", 1, 2, length=64)
    made.miss(3, 4, "page_get")

    assert made.rules == ["a lost page"]


def test_a_dropped_page_may_be_missing(made):
    made.do("page_put", 1, 2, length=64)
    made.do("page_drop", 3, 4)
    made.miss(5, 6, "page_get")

    assert made.rules == []


def test_a_page_put_during_a_fault_may_be_missing(made):
    made.outage("cut", 0, 1.5)
    made.do("page_put", 1, 2, length=64)
    made.miss(30, 31, "page_get")

    assert made.rules == []


def test_a_page_survives_a_cut(made):
    made.do("page_put", 1, 2, length=64)
    made.outage("cut", 3, 4)
    made.miss(30, 31, "page_get")

    assert made.rules == ["a lost page"]
