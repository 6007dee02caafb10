"""What a simulation refuses: it would have read it wrongly, or come to figures without sense."""

from __future__ import annotations

import gzip
import json
import math
import os
import threading

import pytest
from sim.made_traces import small_trace, write_mooncake

from gd2fs.cli import main
from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import Rates, engine_of
from gd2fs.sim.fleet import Fleet
from gd2fs.sim.goal import Goal, rate_at
from gd2fs.sim.made import made_of, make_trace
from gd2fs.sim.playing import play
from gd2fs.sim.reading import read_trace
from gd2fs.sim.tide import tide_of

LINE = {"timestamp": 0, "input_length": 1024, "output_length": 9, "hash_ids": [1, 2]}
OWN = '{"gd2fs_trace": 1, "block_tokens": 512}'
QUICK = Rates(token_s=1e-4, step_s=0.001, requests_max=8)
PRICES = {"gpu": 2, "dram_gb": 0.01, "nvme_gb": 0.001, "nic_gbit": 0.001}


def write(tmp_path, *lines):
    path = tmp_path / "trace.jsonl"
    text = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines)
    path.write_text(text)
    return path


def told(capsys, *words):
    assert main(["sim", *map(str, words)]) == 1
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("hash_ids", [1, 2, 3], "3 `hash_ids`, but 1024 tokens fill no more than 2"),
        ("hash_ids", [1 << 64, 2], ":3 is not a request"),
        ("timestamp", 1e12, "lies more than 100 years"),
        ("timestamp", -1e308, "lies more than 100 years"),
        ("instance", 1 << 32, "`instance` is 4294967296"),
        ("instance", -3, "`instance` is -3"),
    ],
)
def test_a_line_that_cannot_be_is_named(tmp_path, field, value, words):
    with pytest.raises(InvalidRequest, match=":3 is not a request") as refused:
        read_trace(write(tmp_path, OWN, LINE, LINE | {field: value}))

    assert words in str(refused.value)


def test_an_instance_that_the_fleet_does_not_have_is_refused_with_its_line(tmp_path):
    trace = read_trace(write(tmp_path, OWN, LINE | {"instance": 4}, LINE | {"instance": 1}))

    with pytest.raises(InvalidRequest, match=r"trace.jsonl:2 has a request for instance 4"):
        play(trace, Fleet(instances=4))
    assert play(trace, Fleet(instances=5)).instance_of.tolist() == [4, 1]


def test_a_trace_with_fewer_blocks_than_tokens_is_played_with_a_warning(tmp_path):
    warnings: list[str] = []
    few = LINE | {"input_length": 100_000}
    read_trace(write(tmp_path, LINE, few, few), warn=warnings.append)

    assert [each.partition(": ")[0].endswith(":2 and 1 others have fewer `hash_ids` than "
            "their tokens fill") for each in warnings] == [True]  # fmt: skip


@pytest.mark.parametrize("ids", [[2**64 - 1, 0], [-(2**63), -1]])
def test_ids_of_64_bits_with_and_without_a_sign_are_taken(tmp_path, ids):
    assert read_trace(write(tmp_path, LINE | {"hash_ids": ids})).block_count == 2


def test_a_conversation_may_begin_with_chat_0(tmp_path):
    chats = [(0, -1), (1, 0), (2, 1)]
    lines = [LINE | {"chat_id": own, "parent_chat_id": parent, "input_length": 32}
             for own, parent in chats]  # fmt: skip

    assert read_trace(write(tmp_path, *lines)).session.tolist() == [0, 0, 0]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\n", b"\xef\xbb\xbf\n \n"])
def test_a_mark_or_an_empty_line_before_a_header_is_no_matter(tmp_path, before):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(before + f"{OWN}\n{json.dumps(LINE)}\n".encode())

    assert read_trace(path).requests == 1


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = f"{OWN}\n{json.dumps(LINE)}\n"
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()

    assert read_trace(pipe, report=lambda _: None).requests == 1
    writer.join()


def test_a_spoilt_archive_is_refused(tmp_path):
    path = tmp_path / "trace.jsonl.gz"
    packed = bytearray(gzip.compress(os.urandom(5000)))
    packed[10:200] = b"\xff" * 190
    path.write_bytes(packed)

    with pytest.raises(InvalidRequest, match="cannot read"):
        read_trace(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "says nothing of an engine"),
        ({"token_s": 1e-5}, "no `requests_max`"),
        ({"tokens_s": 1e-5}, "`tokens_s` that is not known; is it `token_s`"),
        ({"rates": {"step": 1}}, "`step` that is not known"),
        ({"token_s": 1e300, "step_s": 1, "requests_max": 1}, "`token_s` of an engine is"),
    ],
)
def test_an_engine_file_is_read_whole_or_not_at_all(tmp_path, content, words):
    path = tmp_path / "engine.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRequest) as refused:
        engine_of(str(path))

    assert words in f"{refused.value}; {refused.value.hint}"


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_goal_that_cannot_be_is_refused(seconds):
    with pytest.raises(InvalidRequest, match="`--goal` is"):
        Goal(seconds)


def test_a_goal_that_no_rate_misses_is_told_as_such():
    reached = rate_at(small_trace(requests=20), Fleet(engine=QUICK), Goal(1e6))
    missed = rate_at(small_trace(requests=20), Fleet(engine=QUICK), Goal(1e-9))

    assert reached.is_at_least and reached.requests_per_s > 0
    assert (missed.requests_per_s, missed.is_at_least) == (0.0, False)


def test_an_open_goal_has_no_cost_and_one_that_is_missed_has_a_row(tmp_path, capsys):
    prices, out = tmp_path / "prices.json", tmp_path / "out.json"
    prices.write_text(json.dumps(PRICES))
    words = ["sim", "made:requests=30", "--engine", "h100-8b", "--topology", "private"]

    assert main([*words, "--goal", "1e6", "--prices", str(prices), "--json", str(out)]) == 0
    run = json.loads(out.read_text())
    assert run["goal_is_at_least"] is True
    assert "per_million_tokens_at_goal" not in run["cost"]
    assert "at least" in capsys.readouterr().out

    assert main([*words, "--goal", "1e-9"]) == 0
    assert "not reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--goal", "1", "--workers", "2", "--engine", "h100-8b"], "`--workers` ignores"),
        (["--kill-node", "nan:0"], "`--kill-node` is `nan:0`"),
        (["--kill-node", "inf:0"], "`--kill-node` is `inf:0`"),
        (["--kill-node", "-1:0"], "`--kill-node` is `-1:0`"),
        (["--elastic", "1e-300"], "`--elastic` is 1e-300"),
        (["--node-nic", "1e-300"], "`--node-nic` is 1e-300"),
        (["--cache-blocks", "-1"], "give 0 to 1099511627776"),
        (["--block-tokens", "0"], "blocks of 0 tokens"),
    ],
)
def test_options_that_cannot_be_are_told(words, wanted, capsys):
    assert wanted in told(capsys, "made:requests=9", *words)


def test_no_name_is_no_trace(capsys):
    assert "the trace has no name" in told(capsys, "")


def test_prices_of_bytes_need_an_engine_and_known_fields(tmp_path, capsys):
    prices = tmp_path / "prices.json"
    words = ("made:requests=9", "--prices", prices, "--cache-blocks", 10)
    prices.write_text(json.dumps(PRICES))
    assert "give `--engine`" in told(capsys, *words)
    prices.write_text(json.dumps(PRICES | {"gpus": 1}))
    assert "`gpus` that is not known" in told(capsys, *words)


def test_a_trace_without_tokens_has_no_cost_of_them(tmp_path):
    prices, out = tmp_path / "prices.json", tmp_path / "out.json"
    prices.write_text(json.dumps(PRICES))
    empty = LINE | {"input_length": 0, "output_length": 0, "hash_ids": []}
    words = ["sim", str(write(tmp_path, empty)), "--prices", str(prices), "--json", str(out)]

    assert main(words) == 0
    assert "per_million_tokens" not in json.loads(out.read_text())["shared"]["cost"]


def test_a_death_after_the_end_is_told(capsys):
    assert main(["sim", "made:requests=9", "--kill-node", "1e9:0"]) == 0
    assert "node 0 dies at 1e+09 s, after all is over" in " ".join(capsys.readouterr().err.split())


def test_too_large_a_made_trace_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr("gd2fs.sim.made.free_memory", lambda: 1 << 20)
    with pytest.raises(InvalidRequest, match=r"needs .* of memory"):
        make_trace(made_of("requests=1000000"))


def test_a_small_rate_of_an_instance_takes_all_of_them():
    assert {count for _, count in tide_of(small_trace(), 1e-6, 7)} == {7}


def test_a_trace_of_mooncakes_form_reads_as_before(tmp_path):
    trace = small_trace()
    read = read_trace(write_mooncake(trace, tmp_path / "t.jsonl"), block_tokens=64)

    assert read.input_tokens.tolist() == trace.input_tokens.tolist()
