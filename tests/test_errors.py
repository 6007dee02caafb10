"""Errors: the tree that is drawn is the tree that is there, and every status has its class."""

from __future__ import annotations

import re

import pytest

from gd2fs import Closed, Corrupt, GD2FSError, InvalidRequest, Unavailable, errors
from gd2fs.outcome import Status, error_of

CLASSES = {
    Status.GONE: InvalidRequest,
    Status.FULL: InvalidRequest,
    Status.INVALID: InvalidRequest,
    Status.DENIED: InvalidRequest,
    Status.CORRUPT: Corrupt,
    Status.CANCELLED: Closed,
    Status.RETRY: Unavailable,
    Status.STALE_MAP: Unavailable,
    Status.CONFLICT: Unavailable,
    Status.EXPIRED: Unavailable,
    Status.FENCED: Unavailable,
    Status.UNKNOWN: Unavailable,
    Status.UNAVAILABLE: Unavailable,
}
ANSWERS = {Status.OK, Status.MISS, Status.HAVE}


def test_the_tree_at_the_top_is_the_tree():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")

    assert drawn == [each.__name__ for each in GD2FSError.__subclasses__()]


def test_every_status_is_an_answer_or_an_error():
    assert set(CLASSES) | ANSWERS == set(Status)


@pytest.mark.parametrize("status", CLASSES, ids=lambda status: status.name)
def test_a_status_becomes_the_class_that_says_what_to_do(status):
    error = error_of(status, "what happened")

    assert type(error) is CLASSES[status]
    assert str(error) == "what happened"
    assert error.hint
