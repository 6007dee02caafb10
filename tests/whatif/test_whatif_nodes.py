"""Real nodes: what their curves say of other sizes is what nodes of these sizes find."""

from __future__ import annotations

import random

import pytest
from key_trace.recorded_nodes import recorded_nodes

from gd2fs.whatif import Question, answer_of, curves_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PAGE_BYTES = 64 << 10
MEMORY_BYTES = 16 << 20
LOOKS = 6_000


def ask(client, namespace: str, is_probing: bool) -> None:
    """Some pages often, most seldom; what is missing is put."""
    rng = random.Random(5)
    pages = client.pages(namespace)
    page, into = bytes(PAGE_BYTES), bytearray(PAGE_BYTES)
    for _ in range(LOOKS):
        keys = [b"%d" % int(3_000 * rng.random() ** 3)]
        is_there = not is_probing or pages.exists(keys).leading
        if not (is_there and pages.get(keys, [into]).leading):
            pages.put(keys, [page])


def told_by(memory_bytes: int, question: Question, *, is_probing: bool = False, quota: int = 0):
    """What two nodes of so much memory say, after having been asked."""
    with recorded_nodes(2, memory_bytes=memory_bytes) as nodes:
        for server in nodes.servers:
            if quota:
                server.set_rules("kv", quota_bytes=quota)
        with nodes.client(timeout_s=20) as client:
            ask(client, "kv", is_probing)
            curves, silent = curves_of(client)
    assert not silent
    answer = answer_of(curves, question)
    assert [row.name for row in answer.namespaces] == ["kv"]
    return answer.namespaces[0]


@pytest.mark.parametrize("is_probing", [False, True])
def test_twice_the_memory_finds_what_the_curves_of_half_of_it_say(is_probing):
    small = told_by(MEMORY_BYTES, Question.parse(dram="2x"), is_probing=is_probing)
    large = told_by(2 * MEMORY_BYTES, Question.parse(dram="0.5x"), is_probing=is_probing)

    assert small.counted < large.counted - 0.1
    assert small.now == pytest.approx(small.counted, abs=0.03)
    assert small.then == pytest.approx(large.counted, abs=0.03)
    assert large.now == pytest.approx(large.counted, abs=0.03)
    assert large.then == pytest.approx(small.counted, abs=0.03)


def test_a_quota_is_the_memory_that_counts():
    quota = 8 << 20
    small = told_by(4 * MEMORY_BYTES, Question.parse(dram="2x"), quota=quota)
    large = told_by(4 * MEMORY_BYTES, Question.parse(), quota=2 * quota)

    assert small.now == pytest.approx(small.counted, abs=0.03)
    assert small.then == pytest.approx(large.counted, abs=0.03)


def test_whoever_asks_what_is_there_and_gets_it_has_looked_once():
    probed = told_by(MEMORY_BYTES, Question.parse(), is_probing=True)
    bare = told_by(MEMORY_BYTES, Question.parse())

    assert probed.counted == pytest.approx(bare.counted, abs=0.02)
