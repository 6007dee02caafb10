"""Files of a sweep and its kin: none takes another's place, and what cannot be is said at once."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sim.made_traces import small_trace, write_mooncake

from gd2fs.cli import main
from gd2fs.errors import InvalidRequest
from gd2fs.outputs import check_outputs
from gd2fs.sim.engine import Rates
from gd2fs.sim.setting import Setting
from gd2fs.sim.sweep import Sweep, run_sweep
from gd2fs.sim.sweep_command import best_of, measures_of, place_of, values_of

QUICK = Rates(token_s=1e-4, prompt_s=0.001, step_s=0.01, requests_max=32, token_bytes=1000)
AXES = {"topology": ["shared"], "cache_blocks": [50, 100, 200]}
PRICES = '{"gpu": 2, "dram_gb": 0.01, "nvme_gb": 0.001, "nic_gbit": 0.001}'


@pytest.fixture
def trace(tmp_path):
    return write_mooncake(small_trace(requests=60), tmp_path / "trace.jsonl", block_tokens=512)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def sweep_of(trace, axes=None):
    base = Setting(topology="shared", instances=2, engine=QUICK)
    return Sweep(str(trace), None, base, axes or AXES)


def run(trace, results, jobs=1, axes=None):
    return run_sweep(sweep_of(trace, axes), results, jobs=jobs, report=lambda _: None)


def failed(capsys, *words):
    assert main(["sim", *map(str, words)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 2 and "hint: " in told, told
    return told


def test_other_content_under_the_same_name_is_another_trace(trace, results):
    run(trace, results)
    write_mooncake(small_trace(requests=61), trace, block_tokens=512)

    with pytest.raises(InvalidRequest, match="this trace and setting"):
        run(trace, results)


@pytest.fixture
def piped(trace, tmp_path):
    """A pipe that its writer fills once with ``trace``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(trace.read_bytes()))
    writer.start()
    yield pipe
    writer.join(10)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_trace_from_a_pipe_is_swept_as_a_files(trace, piped, results, tmp_path, jobs):
    found = run(piped, tmp_path / "piped", jobs=jobs)

    whole = run(trace, results)
    for each in (*found, *whole):
        del each["trace"]["name"]
    assert found == whole


def test_results_of_a_pipe_know_its_content(trace, piped, results):
    run(piped, results)

    known = json.loads(results.read_bytes().splitlines()[0])
    assert known["sha256"] == hashlib.sha256(trace.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["sweep", "--jobs", "2", "--cache-blocks", "50,100"], ["curve"]])
def test_a_minus_is_the_standard_input(trace, tmp_path, words):
    more = ["--results", str(tmp_path / "results")] if words[0] == "sweep" else []
    command = [sys.executable, "-m", "gd2fs", "sim", words[0], "-", *words[1:], *more]

    done = subprocess.run(command, input=trace.read_bytes(), capture_output=True, timeout=60)

    assert done.returncode == 0 and b"%" in done.stdout, done.stderr


def test_a_second_sweep_is_told_of_the_first(trace, results):
    whole = run(trace, results)
    with results.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InvalidRequest, match="another sweep"):
            run(trace, results)

    assert run(trace, results) == whole


@pytest.mark.parametrize(
    "line",
    [b'{"a": 1}', b"[]", b"", b"\xff\xfe\x00", b'{"setting": {}}{"setting": {}}', b"[" * 10**5],
)
def test_a_line_that_is_no_result_is_named(trace, results, line):
    run(trace, results)
    results.write_bytes(results.read_bytes() + line + b"\n")
    before = results.read_bytes()

    with pytest.raises(InvalidRequest, match=":5 is no result"):
        run(trace, results)
    assert results.read_bytes() == before


@pytest.mark.parametrize("content", [b"\xff\x00\xfe\n", b"words\n", b"words", b"\n", b"{}"])
def test_a_file_of_something_else_is_left_as_it_is(trace, results, content):
    results.write_bytes(content)

    with pytest.raises(InvalidRequest):
        run(trace, results)
    assert results.read_bytes() == content


@pytest.mark.parametrize("cut", [1, 30])
@pytest.mark.parametrize("lines", [1, 2, 4])
def test_an_unfinished_last_line_is_written_again(trace, results, cut, lines):
    whole = run(trace, results)
    kept = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(kept[:lines])[:-cut])

    assert run(trace, results) == whole
    assert sorted(results.read_bytes().splitlines(keepends=True)) == sorted(kept)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bad_trace_is_one_line(tmp_path, results, jobs, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")

    told = failed(
        capsys, "sweep", bad, "--results", results, "--cache-blocks", "1,2", "--jobs", jobs
    )

    assert "bad.jsonl:1 is not a request" in told
    assert not results.read_bytes()  # a trace that is mended can have it


@pytest.mark.parametrize(
    ("name", "text"),
    [("instances", "2..1"), *(("node_gbit", each) for each in ("1..nan", "1..inf", "inf..inf"))],
)
def test_a_range_that_goes_nowhere_is_refused(name, text):
    with pytest.raises(InvalidRequest):
        values_of(name, text)


def test_too_many_settings_are_not_even_listed(trace):
    axes = {f"{name}_blocks": range(10**6) for name in ("cache", "disk", "device")}

    with pytest.raises(InvalidRequest):
        sweep_of(trace, axes).points()


@pytest.mark.parametrize("jobs", [-1, 10**6])
def test_a_number_of_processes_that_cannot_be_is_refused(trace, results, jobs, capsys):
    assert "`--jobs`" in failed(capsys, "sweep", trace, "--results", results, "--jobs", jobs)
    assert not results.exists()


@pytest.mark.parametrize("command", [["--json"], ["--html"], ["sweep", "--results"]])
@pytest.mark.parametrize("way", ["same", "link", "hard link", "dots"])
def test_an_output_is_never_the_trace(trace, tmp_path, command, way, capsys):
    other = tmp_path / "other"
    if way == "link":
        other.symlink_to(trace)
    elif way == "hard link":
        other.hardlink_to(trace)
    else:
        other = trace if way == "same" else tmp_path / ".." / tmp_path.name / trace.name
    before = trace.read_bytes()

    told = failed(capsys, *command, other, trace)

    assert command[-1] in told and "the trace" in told
    assert trace.read_bytes() == before


def test_an_output_is_never_another_file_of_the_command(trace, tmp_path, capsys):
    rates, prices, new = tmp_path / "rates", tmp_path / "prices", tmp_path / "new"
    rates.write_text(json.dumps({"token_s": 1e-4}))
    prices.write_text(PRICES)

    assert "--engine" in failed(capsys, trace, "--engine", rates, "--json", rates)
    assert "--prices" in failed(capsys, trace, "--prices", prices, "--html", prices)
    assert "--json" in failed(capsys, trace, "--json", new, "--html", new)
    assert "--results" in failed(capsys, "sweep", trace, "--results", new, "--html", new)
    assert "the result" in failed(capsys, "calibrate", rates, "--rates", rates)
    assert not new.exists()


@pytest.mark.parametrize("path", ["/nosuch/x", ".", "a" * 300, "/dev/null/x"])
@pytest.mark.parametrize("command", [["--json"], ["--html"], ["sweep", "--results"]])
def test_an_output_that_cannot_be_written_is_told_first(path, command, capsys):
    told = failed(capsys, *command, path, "/nosuch/trace")

    assert f"cannot write {path}" in told


def test_a_full_disk_is_told_with_the_file(trace, capsys):
    for option in ("--json", "--html"):
        told = failed(capsys, trace, option, "/dev/full")
        assert "cannot write /dev/full" in told and "make room" in told


def test_devices_take_any_output():
    null = Path("/dev/null")

    check_outputs({"json": null, "html": null}, {"the trace": null})
    check_outputs({"json": Path("-"), "html": None}, {"the trace": Path("-")})


@pytest.mark.parametrize("prices", [True, False])
@pytest.mark.parametrize("blocks", ["0,50", "0"])
def test_unlimited_caches_cost_nothing_known_and_are_not_best(
    trace, results, tmp_path, prices, blocks, capsys
):
    file, page = tmp_path / "prices.json", tmp_path / "page.html"
    file.write_text(PRICES)
    words = ["sim", "sweep", str(trace), "--results", str(results), "--topology", "shared"]
    words += ["--cache-blocks", blocks, "--jobs", "1", "--html", str(page)]
    words += ["--engine", "h100-8b", "--prices", str(file)] if prices else []

    assert main(words) == 0

    told = capsys.readouterr().out
    assert told.count("*") == blocks.count(",")  # of 50 blocks alone
    assert "unlimited caches have no cost" in " ".join(told.split())
    assert "unlimited caches have no cost" in page.read_text()


def test_what_has_no_measure_has_no_place():
    setting = {"instances": 2, "disk_blocks": 0}
    runs = [
        {"setting": setting | {"cache_blocks": blocks}, "prefill_tokens": 7}
        for blocks in (0, 50, 90)
    ]
    measures = measures_of(runs, "p95")

    assert [place_of(run, measures) for run in runs] == [(7, None), (7, 100), (7, 180)]
    assert best_of(runs, measures) == [1]
