"""What no node can have is refused with what it can have, and less memory is told as less."""

from __future__ import annotations

import pytest

from gd2fs.cli.whatif import _bytes_text, _cost_line, _print, _Worth
from gd2fs.errors import InvalidRequest
from gd2fs.whatif.answer import Answer, Row, answer_of
from gd2fs.whatif.curves import NodeCurves
from gd2fs.whatif.question import Question

MIB = 1 << 20


def node(name: str, *, memory: int = 64 * MIB, disk: int = 0) -> NodeCurves:
    return NodeCurves(name, 100.0, memory, memory, disk, [])


def row(now: float, then: float) -> Row:
    return Row("kv", 0, 1_000.0, now, now, then, (then - now) * 1_000 * MIB, [])


def answer(now: float, then: float) -> Answer:
    return Answer(1, 100.0, 8 << 30, 0, 1, 4 << 30, 0, row(now, then), [row(now, then)])


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ({"dram": "0"}, "16 MiB is the least"),
        ({"dram": "0x"}, "more than 0x"),
        ({"dram": "1KiB"}, "16 MiB is the least"),
        ({"dram": "3000TiB"}, "1024 TiB is the most"),
        ({"nvme": "1KiB"}, "8 MiB is the least, or 0 for no disk"),
        ({"nodes": "+100000"}, "1,024 nodes at most"),
        ({"nodes": "-" + "9" * 5_000}, "1,024 nodes at most"),
        ({"nodes": "2"}, "write `+2` or `-1`"),
    ],
)
def test_what_no_cluster_can_have_is_refused_with_its_bound(words, hint):
    with pytest.raises(InvalidRequest) as refused:
        Question.parse(**words)

    assert hint in refused.value.hint


@pytest.mark.parametrize("words", [{"nvme": "0"}, {"nvme": "0x"}, {"nodes": "+0002"}])
def test_no_disk_and_a_few_nodes_can_be(words):
    Question.parse(**words)


@pytest.mark.parametrize("words", [{"dram": "0.1x"}, {"nodes": "+1024"}])
def test_what_it_comes_to_for_these_nodes_is_held_to_the_bounds_too(words):
    with pytest.raises(InvalidRequest):
        answer_of([node("n0")], Question.parse(**words))


def test_a_node_that_is_small_already_may_be_asked_about():
    assert answer_of([node("n0", memory=MIB)], Question.parse(nodes="+1")).then_nodes == 2


@pytest.mark.parametrize(
    ("disks", "nvme", "said"),
    [
        ((0, 0), "2x", "no node has a disk"),
        ((0, MIB), "2x", "n0 without a disk"),
        ((MIB, MIB), "2x", ""),
        ((0, 0), "8MiB", ""),
        ((0, 0), "1x", ""),
    ],
)
def test_twice_no_disk_is_said_to_change_nothing(disks, nvme, said):
    nodes = [node(f"n{at}", disk=disk) for at, disk in enumerate(disks)]
    notes = answer_of(nodes, Question.parse(nvme=nvme)).notes

    assert [said in note for note in notes] == ([True] if said else [])


def test_fewer_hits_are_more_tokens_to_compute():
    assert _Worth(16, "", None).lines(answer(0.5, 0.7)) == ["3,200 tokens/s need not be computed"]
    assert _Worth(16, "", None).lines(answer(0.7, 0.5)) == [
        "3,200 tokens/s more have to be computed"
    ]
    _, gpus = _Worth(16, "h100-8b", None).lines(answer(0.7, 0.5))
    assert gpus.endswith("GPUs more are needed for them") and not gpus.startswith("-")


@pytest.mark.parametrize(
    ("cost", "saved", "line"),
    [
        (0.5, None, "costs 0.50 an hour"),
        (0.5, 2.0, "costs 0.50 an hour, and saves 2.00"),
        (-0.5, None, "memory and disks cost 0.50 an hour less"),
        (-0.5, -2.0, "memory and disks cost 0.50 an hour less, GPUs 2.00 more"),
        (0.5, -2.0, "memory and disks cost 0.50 an hour more, GPUs 2.00 more"),
        (-0.5, 2.0, "memory and disks cost 0.50 an hour less, GPUs 2.00 less"),
    ],
)
def test_costs_have_no_sign_but_a_direction(cost, saved, line):
    assert _cost_line(cost, saved) == line


@pytest.mark.parametrize(
    ("now", "then", "is_less", "text"),
    [
        (0.5, 0.6, False, "100 MiB/s"),
        (0.5, 0.5, False, "0 B/s"),
        (0.6, 0.5, True, "100 MiB/s fewer"),
        (0.5, 0.6, True, "100 MiB/s more"),
        (0.5, 0.5, True, "as many"),
    ],
)
def test_bytes_have_no_sign_but_a_direction(now, then, is_less, text):
    assert _bytes_text(row(now, then), is_less) == text


@pytest.mark.parametrize(
    ("now", "then", "title", "cell"),
    [(0.5, 0.6, "more bytes/s", "100 MiB/s"), (0.6, 0.5, "bytes/s found", "100 MiB/s fewer")],
)
def test_the_table_says_which_way_it_goes(capsys, now, then, title, cell):
    _print(answer(now, then), _Worth(0, "", None))

    _, head, line = capsys.readouterr().out.splitlines()
    assert head.endswith(title) and line.endswith(cell)
