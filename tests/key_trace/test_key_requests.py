"""Requests: what an engine asks of one node, batch by batch, is told as the prompts it was for."""

from __future__ import annotations

import struct

from gd2fs.key_trace.entries import EXISTS, GET, HIT, MISS, OFFER, STORED, Batch, Key, batches_in
from gd2fs.key_trace.requests import Requests


def batch(op, found: str, lacking: str = "", when_us: int = 0) -> Batch:
    outcome = STORED if op == OFFER else HIT
    keys = [Key(ord(name), 0, outcome) for name in found]
    return Batch(when_us, op, (*keys, *(Key(ord(name), 0, MISS) for name in lacking)))


def told(*batches: Batch) -> list[tuple[str, int, str]]:
    """Of each request what was asked, how much was found, and what was put besides."""
    requests = Requests()
    return [
        ("".join(map(chr, each.asked)), each.found, "".join(map(chr, each.stored)))
        for each in map(requests.of, batches)
        if each
    ]


def test_what_is_asked_about_and_got_and_put_is_one_request():
    asked = [batch(EXISTS, "abc", "de"), batch(GET, "cba"), batch(OFFER, "ed")]

    assert told(*asked) == [("abcde", 3, "")]


def test_what_is_got_without_a_question_is_a_request_and_its_misses_are_put_for_it():
    assert told(batch(GET, "ab", "c"), batch(OFFER, "c")) == [("abc", 2, "")]


def test_whoever_asks_again_is_counted_again():
    twice = [batch(EXISTS, "", "ab"), batch(EXISTS, "", "ab"), batch(GET, "", "a"), batch(GET, "a")]

    assert told(*twice) == [("ab", 0, ""), ("ab", 0, ""), ("a", 1, "")]


def test_what_was_got_for_one_prompt_may_be_asked_for_by_the_next():
    again = [batch(EXISTS, "ab"), batch(GET, "ab"), batch(GET, "ab"), batch(EXISTS, "ab")]

    assert told(*again) == [("ab", 2, ""), ("ab", 2, ""), ("ab", 2, "")]


def test_what_nobody_had_asked_for_is_an_answers():
    assert told(batch(EXISTS, "", "a"), batch(OFFER, "axy")) == [("a", 0, ""), ("", 0, "xy")]


def test_entries_are_read_as_the_node_lays_them_out():
    keys = struct.pack("<QIBBH", 2**64 - 1, 4096, HIT, 0, 0) + struct.pack("<QIBBH", 6, 0, 0, 0, 0)
    entries = struct.pack("<QIBBH", 1_000, 2, 0, GET, 0) + keys

    assert list(batches_in(entries)) == [
        Batch(1_000, GET, (Key(2**63 - 1, 4096, HIT), Key(3, 0, MISS)))
    ]
