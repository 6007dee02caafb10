"""Calibration: a run that was simulated is replayed: its times nearly, its hits to the token."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from gd2fs.cli import main
from gd2fs.sim.calibration import Beginning, Request, Run, calibrate, found_in, read_run, trace_of
from gd2fs.sim.engine import Rates, engine_of
from gd2fs.sim.fleet import UNLIMITED, Fleet, Store
from gd2fs.sim.playing import play

RATES = Rates(token_s=2e-3, prompt_s=0.02, step_s=0.03, step_request_s=0.004, requests_max=2)
WORKLOAD = {"concurrency": 3, "slots": 2, "instances": 2}


RECORDED = sorted((Path(__file__).parents[1] / "data").glob("topology-*.json"))


def measured(*, is_shared: bool) -> list[Request]:
    """Four conversations of four turns, answered by an engine of these rates."""
    asked = [
        Request(session, turn, (session * 3 + turn * turn) % 2, 200 + 60 * turn, 11, 0, 1.0, 1.0)
        for session in range(4)
        for turn in range(4)
    ]
    fleet = Fleet(
        instances=2,
        engine=RATES,
        device_blocks=0 if is_shared else UNLIMITED,
        store=Store(node_gbit=0, disk_read=0, disk_write=0) if is_shared else None,
        engine_gbit=0,
        load_s=0.015,
        never_slower=False,
        workers=3,
    )
    played = play(trace_of(asked, 1), fleet)
    for request, first, done, found in zip(
        asked, played.first_token_s, played.done_s, played.found_blocks, strict=True
    ):
        request.ttft_s, request.last_token_s = float(first), float(done)
        request.reused_tokens = min(int(found), request.prompt_tokens - 1)
    return asked


@pytest.fixture(scope="module")
def run():
    return Run({arm: measured(is_shared=arm == "B") for arm in "AB"}, WORKLOAD, {})


@pytest.mark.slow
def test_a_run_is_replayed_as_it_was(run):
    found = calibrate(run)

    for arm in "AB":
        check = found.checks[arm]
        assert check.simulated_ttft_s == pytest.approx(check.ttft_s, rel=0.05)
        assert check.simulated_gap_s == pytest.approx(check.gap_s, rel=0.1)
        assert check.simulated_reused_tokens == check.reused_tokens > 0
    assert found.checks["A"].reused_tokens < found.checks["B"].reused_tokens
    assert found.rates.token_s == pytest.approx(RATES.token_s, rel=0.2)


def test_a_result_without_requests_is_refused(tmp_path, capsys):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"arms": {}, "workload": {}, "engine": {}}))

    assert main(["sim", "calibrate", str(path)]) == 1
    assert "no result of a topology" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_rates_that_were_found_are_an_engine(run, tmp_path, capsys):
    result, rates = tmp_path / "result.json", tmp_path / "rates.json"
    result.write_bytes(msgspec.json.encode(run))

    assert main(["sim", "calibrate", str(result), "--rates", str(rates)]) == 0

    assert engine_of(str(rates)).requests_max == 2
    assert "simulated/measured" in capsys.readouterr().out


@pytest.mark.parametrize("arm", ["A", "B"])
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_prompt_of_a_recorded_run_finds_what_it_found_in_llama_cpp(path, arm):
    found = found_in(read_run(path), arm)

    assert found.simulated == found.measured
    assert sum(found.measured) > 0


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_an_engine_with_pages_would_have_found_something_else(path):
    run = read_run(path)
    run.engine["name"] = "an engine with pages"

    found = found_in(run, "A")

    assert found.simulated != found.measured


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_without_the_common_beginnings_something_is_missing(path):
    run = read_run(path)
    run.beginnings = []

    found = found_in(run, "A")

    assert sum(found.simulated) < sum(found.measured)


def test_sessions_have_the_blocks_in_common_with_which_they_begin():
    asked = [Request(session, 0, 0, 10, 5, 0, 1.0, 1.0) for session in range(3)]
    alike = [Beginning(1, 0, 4), Beginning(2, 1, 8)]

    trace = trace_of(asked, 2, alike)

    rows = [trace.blocks[7 * at : 7 * at + 7].tolist() for at in range(3)]
    assert [len(set(rows[0]) & set(rows[1])), len(set(rows[0]) & set(rows[2]))] == [2, 2]
    assert rows[1][:4] == rows[2][:4]
    assert not set(rows[1][4:]) & set(rows[2][4:])


def test_nobody_goes_on_with_an_answer_that_is_not_the_scripts():
    first = Request(0, 0, 0, 10, 6, 0, 1.0, 1.0, agreeing_tokens=2)
    second = Request(0, 1, 0, 20, 6, 0, 1.0, 1.0)

    trace = trace_of([first, second], 1)

    own, other = (set(trace.blocks[a:b].tolist()) for a, b in ((0, 15), (15, 40)))
    assert len(own & other) == 12


def test_slots_of_a_conversation_are_found_again_in_host_memory():
    asked = [Request(at % 3, at // 3, 0, 40 + 20 * (at // 3), 4, 0, 1.0, 1.0) for at in range(6)]
    for at, request in enumerate(asked):
        request.sent_s = float(at)
    trace = replace(trace_of(asked, 1), arrives_s=np.arange(6.0))

    def found(host_blocks: int) -> list[int]:
        fleet = Fleet(engine=Rates(slots=2), host_blocks=host_blocks)
        return play(trace, fleet).found_blocks.tolist()

    assert found(0) == [0, 0, 0, 0, 0, 0]
    assert found(UNLIMITED) == [0, 0, 0, 43, 43, 43]
