"""Calibration: a run that was simulated is replayed: its times nearly, its hits to the token."""

from __future__ import annotations

import json

import msgspec
import pytest

from gd2fs.cli import main
from gd2fs.sim.calibration import Request, Run, calibrate, trace_of
from gd2fs.sim.engine import Rates, engine_of
from gd2fs.sim.fleet import UNLIMITED, Fleet, Store
from gd2fs.sim.playing import play

RATES = Rates(token_s=2e-3, prompt_s=0.02, step_s=0.03, step_request_s=0.004, requests_max=2)
WORKLOAD = {"concurrency": 3, "slots": 2, "instances": 2}


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
