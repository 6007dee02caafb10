"""`gd2fs sim`: its figures, files and refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sim.made_traces import plain_hits, small_trace, write_mooncake

from gd2fs.cli import main
from gd2fs.sim.reading import read_trace

TRACES = os.environ.get("GD2FS_TEST_TRACES")
FIGURES = {  # of published traces: blocks found by private caches and by a shared one
    ("conversation", 1, 0): (36.6, 36.6),
    ("conversation", 4, 6000): (13.0, 30.7),
    ("conversation", 16, 6000): (9.4, 36.4),
    ("synthetic", 1, 0): (64.0, 64.0),
    ("synthetic", 4, 6000): (25.6, 60.0),
    ("synthetic", 16, 6000): (13.5, 64.0),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = write_mooncake(
        small_trace(), tmp_path_factory.mktemp("traces") / "trace.jsonl", block_tokens=512
    )
    return read_trace(path), path


def figures(tmp_path, *words: object) -> dict:
    out = tmp_path / "out.json"
    assert main(["sim", *map(str, words), "--json", str(out)]) == 0
    return json.loads(out.read_text())


@pytest.mark.parametrize("topology", ["private", "shared"])
def test_the_block_hit_rate_is_that_of_the_leading_runs(made, tmp_path, topology):
    trace, path = made
    words = ("--instances", 4, "--topology", topology, "--balancer", "round-robin")

    found = figures(tmp_path, path, *words, "--cache-blocks", 150)["block_hit_rate"]

    instances, capacity = (4, 150) if topology == "private" else (1, 600)
    blocks = int(trace.prompt_blocks.sum())
    assert found == plain_hits(trace, instances, capacity) / blocks


@pytest.mark.skipif(not TRACES, reason="GD2FS_TEST_TRACES names no folder of Mooncake's traces")
@pytest.mark.parametrize(("name", "instances", "blocks"), FIGURES)
def test_published_traces_come_to_their_known_figures(tmp_path, name, instances, blocks):
    path = Path(TRACES or "") / f"mooncake_{name}_trace.jsonl"
    for topology, known in zip(
        ("private", "shared"), FIGURES[name, instances, blocks], strict=True
    ):
        words = ("--instances", instances, "--topology", topology, "--cache-blocks", blocks)
        rate = figures(tmp_path, path, *words)["block_hit_rate"]
        assert abs(100 * rate - known) <= 0.2


def test_both_topologies_stand_side_by_side(tmp_path, capsys):
    path = write_mooncake(small_trace(), tmp_path / "trace.jsonl")
    result = figures(tmp_path, path, "--engine", "h100-8b", "--block-tokens", 64)

    assert result["block_hit_rate"] == result["shared"]["block_hit_rate"]
    assert result["private"]["block_hit_rate"] < result["shared"]["block_hit_rate"]
    assert set(result["shared"]["ttft_s"]) == {"mean", "p50", "p95", "p99", "max"}
    told = capsys.readouterr().out
    assert "shared/private" in told and "next token after, P99" in told


def test_json_goes_to_the_standard_output_when_asked(made, capsys):
    assert main(["sim", str(made[1]), "--topology", "private", "--json", "-"]) == 0

    assert json.loads(capsys.readouterr().out)["topology"] == "private"


@pytest.mark.slow
def test_the_page_needs_nothing_else(made, tmp_path):
    page = tmp_path / "page.html"
    words = ["sim", str(made[1]), "--engine", "h100-8b", "--cache-blocks", "99", "--html"]

    assert main([*words, str(page)]) == 0

    text = page.read_text()
    assert text.count("<svg") == 1
    assert "Time to first token" in text and "cache_blocks" in text
    assert "src=" not in text and "<script" not in text and "@import" not in text


def test_prices_come_to_a_cost_of_a_million_tokens(made, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text('{"gpu": 2, "dram_gb": 0.01, "nvme_gb": 0.001, "nic_gbit": 0.001}')
    words = (made[1], "--engine", "h100-8b", "--cache-blocks", 100, "--instances", 3)

    result = figures(tmp_path, *words, "--prices", prices)

    shared = result["shared"]["cost"]
    trace = made[0]
    tokens = int(trace.input_tokens.sum()) + int(trace.output_tokens.sum())
    hours = result["shared"]["span_s"] / 3600
    assert shared["gpu_per_hour"] == 6
    assert shared["dram_per_hour"] == pytest.approx(3 * 100 * 512 * 131072 / 1e9 * 0.01)
    assert shared["nic_per_hour"] == pytest.approx(0.4)
    assert shared["per_million_tokens"] == pytest.approx(shared["per_hour"] * hours / tokens * 1e6)
    assert result["private"]["cost"]["nic_per_hour"] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.jsonl"], "cannot read none.jsonl"),
        (["made:wrong=1"], "says nothing of a made trace"),
        (["made:requests=9", "--topology", "wrong"], "`--topology` is `wrong`"),
        (["made:requests=9", "--balancer", "wrong"], "`--balancer` is `wrong`"),
        (["made:requests=9", "--engine", "wrong"], "no engine that is known"),
        (["made:requests=9", "--goal", "1"], "`--goal` is about time"),
        (["made:requests=9", "--prices", "none.json"], "cannot read none.json"),
        (["made:requests=9", "--seed", "-1"], "`--seed` is -1"),
        (["made:requests=9", "--node-nic", "-1"], "`--node-nic` is -1"),
        (["made:requests=9", "--cache-blocks", "9" * 30], "`--cache-blocks` is 999"),
        (["made:requests=9", "--kill-node", "1"], "`--kill-node` is `1`"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(words, told, capsys):
    assert main(["sim", *words]) == 1

    assert told in " ".join(capsys.readouterr().err.split())
