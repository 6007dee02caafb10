"""Figures of `gd2fs bench tls`: what is made of its rounds, and one small run of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gd2fs.bench.commands import bench
from gd2fs.bench.tls.commands import report
from gd2fs.bench.tls.run import CIPHERS, Outcome, Round, Settings


def outcome_of(reads: list[float]) -> Outcome:
    settings = Settings(64 << 20, 2, 2, "auto", len(reads), 1.0)
    sealed = dict(zip(CIPHERS, (4e9, 3e9), strict=True))
    rounds = tuple(Round(sealed, read, read / 2, 8e9) for read in reads)
    return Outcome(settings, rounds, 100.0)


def test_the_ratio_is_the_median_of_rounds_to_the_quickest_cipher() -> None:
    outcome = outcome_of([2e9, 3e9, 1e9])

    assert outcome.ratio == 0.5


@pytest.mark.parametrize(("read", "mark"), [(2.4e9, "✓"), (2.3e9, "✗")])
def test_the_report_says_whether_the_target_is_met(read: float, mark: str) -> None:
    [line] = [line for line in report(outcome_of([read])) if "target" in line]

    assert f"target 0.60 {mark}" in line


@pytest.mark.slow
def test_a_small_run_measures_real_nodes(tmp_path: Path) -> None:
    file = tmp_path / "tls.json"
    words = ["tls", "--file", "1MiB", "--repeat", "1", "--seconds", "0.01", "--arena", "plain"]

    assert bench([*words, "--json", str(file)]) == 0

    [one] = json.loads(file.read_text())["tls"]["rounds"]
    assert min(one["read"], one["written"], one["plain_read"], *one["sealed"].values()) > 0
