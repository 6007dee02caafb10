"""Traces: three forms of lines, what is refused and in which words, and conversations found."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sim.made_traces import small_trace, write_mooncake

from gd2fs.errors import InvalidRequest
from gd2fs.sim.made import made_of, make_trace
from gd2fs.sim.reading import read_trace

MOONCAKE = [
    {"timestamp": 0, "input_length": 1100, "output_length": 9, "hash_ids": [7, 8, 9]},
    {"timestamp": 1500, "input_length": 1600, "output_length": 9, "hash_ids": [7, 8, 10, 11]},
    {"timestamp": 500, "input_length": 520, "output_length": 9, "hash_ids": [20, 21]},
]
QWEN = [
    {"chat_id": 5, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 3,
     "type": "text", "turn": 1, "hash_ids": [1, 2, 3]},
    {"chat_id": 6, "parent_chat_id": -1, "timestamp": 0.75, "input_length": 40,
     "output_length": 3, "type": "text", "turn": 1, "hash_ids": [4, 5, 6]},
    {"chat_id": 9, "parent_chat_id": 5, "timestamp": 2.5, "input_length": 60, "output_length": 3,
     "type": "text", "turn": 2, "hash_ids": [1, 2, 3, 7]},
    {"chat_id": 12, "parent_chat_id": 9, "timestamp": 3.5, "input_length": 60,
     "output_length": 3, "type": "text", "turn": 3, "hash_ids": [1, 2]},
]  # fmt: skip
OWN = [
    {"gd2fs_trace": 1, "block_tokens": 64},
    {"timestamp": 3.0, "input_length": 130, "output_length": 70, "hash_ids": [3, 4],
     "answer_ids": [5], "session": 4, "instance": 1},
    {"timestamp": 4.0, "input_length": 200, "output_length": 1, "hash_ids": [3, 4, 5],
     "session": 4, "instance": 0},
]  # fmt: skip


def write(tmp_path, lines, name="trace.jsonl"):
    path = tmp_path / name
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n"
                            for each in lines))  # fmt: skip
    return path


def refusal(path) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read_trace(path)
    return str(refused.value)


def test_mooncake_lines_are_put_in_the_order_of_time(tmp_path):
    trace = read_trace(write(tmp_path, MOONCAKE))

    assert trace.arrives_s.tolist() == [0, 0.5, 1.5]
    assert trace.input_tokens.tolist() == [1100, 520, 1600]
    assert trace.block_tokens == 512
    assert trace.block_count == 7
    assert trace.blocks[3:5].tolist() == [5, 6]
    assert trace.session.tolist() == [0, 1, 0]  # the last one goes through the full block 8


def test_qwen_lines_name_their_conversations(tmp_path):
    trace = read_trace(write(tmp_path, QWEN))

    assert trace.block_tokens == 16
    assert trace.arrives_s.tolist() == [0, 0.25, 2.0, 3.0]
    assert trace.session.tolist() == [0, 1, 0, 0]


def test_our_own_lines_know_answers_and_instances(tmp_path):
    trace = read_trace(write(tmp_path, OWN))

    assert trace.block_tokens == 64
    assert trace.prompt_blocks.tolist() == [2, 3]
    assert np.diff(trace.first_block.astype(int)).tolist() == [3, 3]
    assert trace.instance.tolist() == [1, 0]


def test_a_compressed_file_is_read_as_it_is(tmp_path):
    plain = write(tmp_path, MOONCAKE)
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert read_trace(packed).blocks.tolist() == read_trace(plain).blocks.tolist()


def test_a_system_prompt_makes_no_conversation(tmp_path):
    lines = [
        {"timestamp": at, "input_length": 1024, "output_length": 1, "hash_ids": [0, 100 + at]}
        for at in range(8)
    ]

    assert read_trace(write(tmp_path, lines)).sessions == 8


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "has no requests"),
        (["nonsense"], "1 is not JSON"),
        (["[1, 2]"], "1 is no JSON object"),
        ([MOONCAKE[0], {"timestamp": 1}], "2 is not a request"),
        ([{**MOONCAKE[0], "input_length": -1}], "1 is not a request: -1 and 9 tokens"),
        ([{**MOONCAKE[0], "hash_ids": [1 << 70]}], "1 is not a request"),
        ([{"gd2fs_trace": 2, "block_tokens": 1}], "is of version 2"),
        ([{"gd2fs_trace": 1, "block_tokens": 0}], "blocks of 0 tokens"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path, lines, words):
    assert words in refusal(write(tmp_path, lines))


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "cannot read" in refusal(tmp_path / "none.jsonl")


def test_a_broken_archive_is_refused(tmp_path):
    path = tmp_path / "trace.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(MOONCAKE[0]).encode() * 100)[:-30])

    assert "cannot read" in refusal(path)


def test_a_made_trace_is_the_same_for_the_same_seed():
    first, again, other = (make_trace(made_of(f"requests=500,seed={seed}")) for seed in (1, 1, 2))

    assert first.blocks.tolist() == again.blocks.tolist()
    assert first.arrives_s.tolist() == again.arrives_s.tolist()
    assert first.blocks.tolist() != other.blocks.tolist()


def test_a_made_trace_has_as_many_requests_as_told_in_the_order_of_time():
    trace = make_trace(made_of("requests=5000,rate=1"))

    assert trace.requests == 5000
    assert np.all(np.diff(trace.arrives_s) >= 0)
    assert 0.7 < trace.requests / trace.span_s < 1.1


def test_a_later_turn_of_a_made_trace_begins_with_all_of_the_earlier_one():
    trace = small_trace()
    last: dict[int, list[int]] = {}
    for request in range(trace.requests):
        begin, end = (int(each) for each in trace.first_block[request : request + 2])
        blocks = trace.blocks[begin:end].tolist()
        before = last.get(int(trace.session[request]), [])
        assert blocks[: len(before)] == before
        last[int(trace.session[request])] = blocks


@pytest.mark.parametrize("text", ["requests=x", "wrong=1", "requests=0", "turns=0.5", "seed"])
def test_a_made_trace_that_cannot_be_is_refused(text):
    with pytest.raises(InvalidRequest):
        made_of(text)


def test_conversations_of_a_trace_without_names_are_found(tmp_path):
    trace = small_trace(shared=0, prompts=1)
    read = read_trace(write_mooncake(trace, tmp_path / "trace.jsonl"), block_tokens=64)
    pairs = set(zip(trace.session.tolist(), read.session.tolist(), strict=True))

    assert len(pairs) == trace.sessions == read.sessions


def test_what_a_recording_lacks_is_told_and_the_rest_is_read(tmp_path):
    path, warnings = write(tmp_path, [*OWN, {"error": "n1 was not recorded", "hint": ""}]), []

    assert read_trace(path, warn=warnings.append).requests == len(OWN) - 1
    assert [each.partition(": ")[2] for each in warnings] == ["n1 was not recorded"]
