"""Answers: what curves of nodes come to together, and what is said when they say too little."""

from __future__ import annotations

import pytest

from gd2fs.errors import InvalidRequest
from gd2fs.whatif.answer import FOLLOWED_MIN, answer_of
from gd2fs.whatif.curves import NamespaceCurve, NodeCurves
from gd2fs.whatif.question import Question, Size

GIB = 1 << 30


def curve(name: str = "a", *, looks: int = 1_000, found: int = 500, quota: int = 0, shares=None):
    """Finds a tenth for each GiB, all of it in ten."""
    shares = shares or [0.1, 0.2, 0.4, 0.8, 1.0]  # of 1, 2, 4, 8 and 16 GiB
    return NamespaceCurve(name, quota, looks, found, looks, 1 << 20, shares, GIB, 1.0)


def node(name: str, *curves: NamespaceCurve, memory: int = 2 * GIB, disk: int = 0) -> NodeCurves:
    return NodeCurves(name, 100.0, 8 * GIB, memory, disk, curves)


def asked(*nodes: NodeCurves, **question: str):
    return answer_of(nodes, Question.parse(**question))


def test_twice_the_memory_is_looked_up_at_twice_the_size():
    row = asked(node("n0", curve()), dram="2x").total

    assert (row.counted, row.now, row.then) == (0.5, 0.2, 0.4)
    assert row.gain == pytest.approx(0.2)
    assert row.more_bytes_per_s == pytest.approx(0.2 * 1_000 / 100 * (1 << 20))


def test_nodes_answer_each_by_its_own_curve_and_weigh_by_looks():
    busy = node("n0", curve(looks=3_000, found=0))
    idle = node("n1", curve(looks=1_000, found=1_000), memory=8 * GIB)

    row = asked(busy, idle, dram="1x").total

    assert row.counted == pytest.approx(0.25)
    assert row.now == row.then == pytest.approx((3 * 0.2 + 0.8) / 4)


def test_more_nodes_are_more_memory_for_the_same_keys():
    twice = asked(node("n0", curve()), node("n1", curve()), nodes="+2")

    assert twice.total.then == asked(node("n0", curve()), dram="2x").total.then
    assert (twice.then_nodes, twice.then_memory_bytes) == (4, 32 * GIB)


def test_disk_is_below_memory():
    answer = asked(node("n0", curve(), disk=2 * GIB), nvme="6GiB")

    assert (answer.total.now, answer.total.then) == (0.4, 0.8)
    assert answer.then_disk_bytes == 6 * GIB


def test_a_namespace_with_a_quota_has_that_of_its_own():
    answer = asked(node("n0", curve("a", quota=4 * GIB), curve("b")), dram="2x")

    assert {row.name: (row.now, row.then) for row in answer.namespaces} == {
        "a": (0.4, 0.8),
        "b": (0.2, 0.4),
    }
    assert (answer.memory_bytes, answer.then_memory_bytes) == (8 * GIB, 16 * GIB)


def test_so_many_bytes_are_those_of_a_whole_node():
    row = asked(node("n0", curve("a", quota=6 * GIB)), dram="16GiB").namespaces[0]

    assert row.then == pytest.approx(0.917, abs=0.001)  # of 12 GiB


def test_too_few_samples_are_said_to_be_in_place_of_a_number():
    few = curve("few", looks=FOLLOWED_MIN - 1, found=7)

    row = asked(node("n0", few), dram="2x").namespaces[0]

    assert (row.now, row.then, row.gain, row.more_bytes_per_s) == (None,) * 4
    assert row.counted == 7 / (FOLLOWED_MIN - 1) and not row.points


def test_a_cluster_that_was_not_asked_for_anything_has_nothing_to_tell():
    answer = asked(node("n0"), dram="2x")

    assert answer.namespaces == [] and answer.total.now is None


def test_between_two_steps_it_is_a_line_and_beyond_the_last_it_stays():
    line = curve(shares=[0.0, 1.0])

    assert line.share_within(GIB / 2) == 0
    assert line.share_within(2**30.5) == pytest.approx(0.5)
    assert line.share_within(64 * GIB) == 1.0


def test_what_is_asked_is_read_as_people_write_it():
    question = Question.parse(dram="1.5x", nvme="4TiB", nodes="-1")

    assert question == Question(Size(times=1.5), Size(bytes=4 << 40), -1)


@pytest.mark.parametrize(
    "words",
    [{"dram": "twice"}, {"dram": "2000x"}, {"nvme": "-1GiB"}, {"nodes": "2"}, {"nodes": "+many"}],
)
def test_what_means_nothing_is_refused(words):
    with pytest.raises(InvalidRequest):
        Question.parse(**words)


def test_one_node_has_to_be_left():
    with pytest.raises(InvalidRequest):
        asked(node("n0", curve()), nodes="-1")
