"""Sweeps: every combination once, what is known is not done again, and nothing beats the line."""

from __future__ import annotations

import json

import pytest

from gd2fs.cli import main
from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import Rates
from gd2fs.sim.setting import Setting
from gd2fs.sim.sweep import Sweep, pareto, run_sweep
from gd2fs.sim.sweep_command import values_of

TRACE = "made:requests=300,rate=20,block=64"
QUICK = Rates(token_s=1e-4, prompt_s=0.001, step_s=0.01, requests_max=32, token_bytes=1000)
AXES = {
    "topology": ["private", "shared"],
    "cache_blocks": [50, 100, 200],
    "policy": ["lru", "s3-fifo"],
}


@pytest.fixture
def sweep():
    return Sweep(TRACE, None, Setting(topology="shared", instances=3, engine=QUICK), AXES)


def run(sweep, path, jobs=1):
    told: list[int] = []
    return run_sweep(sweep, path, jobs=jobs, report=told.append), told


def test_what_does_not_matter_is_not_varied(sweep):
    assert len(sweep.points()) == 3 + 3 * 2  # private caches have no policy of GD2FS


def test_a_sweep_that_was_broken_off_goes_on_where_it_was(sweep, tmp_path):
    path = tmp_path / "results"
    whole, _ = run(sweep, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5]) + lines[5][:40])  # the last one only in part

    again, told = run(sweep, path)

    assert again == whole
    assert told == [4, 5, 6, 7, 8, 9]
    assert len(path.read_text().splitlines()) == 10


def test_all_is_known_the_second_time(sweep, tmp_path):
    first, _ = run(sweep, tmp_path / "results")
    second, told = run(sweep, tmp_path / "results")

    assert first == second
    assert told == [9]


def test_results_of_another_trace_are_not_taken_for_ones_own(sweep, tmp_path):
    path = tmp_path / "results"
    path.write_text(json.dumps({"trace": "other"}) + "\n")

    with pytest.raises(InvalidRequest):
        run(sweep, path)


@pytest.mark.slow
def test_several_processes_come_to_the_same(sweep, tmp_path):
    alone, _ = run(sweep, tmp_path / "alone")
    together, _ = run(sweep, tmp_path / "together", jobs=2)

    assert together == alone


def test_nothing_beats_the_line_in_both():
    assert pareto([(3, 1), (1, 5), (2, 5), (2, 2), (4, 1), (1, 6)]) == [1, 3, 0]


@pytest.mark.parametrize(
    ("text", "values"), [("2,4", [2, 4]), ("2..16", [2, 4, 8, 16]), ("1,2..4,1", [1, 2, 4])]
)
def test_lists_are_told_or_doubled(text, values):
    assert values_of("instances", text) == values


@pytest.mark.parametrize("text", ["", "x", "0..4", "1,"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(InvalidRequest):
        values_of("instances", text)


@pytest.mark.slow
def test_the_command_tells_what_is_worth_it_and_writes_a_page(tmp_path, capsys):
    page, prices = tmp_path / "page.html", tmp_path / "prices.json"
    prices.write_text('{"gpu": 2, "dram_gb": 0.01, "nvme_gb": 0.001, "nic_gbit": 0.001}')
    words = ["sim", "sweep", TRACE, "--results", str(tmp_path / "results"), "--engine", "h100-8b"]
    words += ["--instances", "1..2", "--cache-blocks", "50", "--prices", str(prices)]

    assert main([*words, "--jobs", "1", "--html", str(page)]) == 0

    told = capsys.readouterr().out
    assert "instances" in told and "*" in told
    assert page.read_text().count("<svg") == 1
