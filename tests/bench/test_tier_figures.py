"""The benchmark of memory and disk: its figures, and a small run of the real thing."""

import dataclasses
import json
import shutil

import pytest
from typer.testing import CliRunner

from gd2fs.bench.board import Board
from gd2fs.bench.commands import bench_app
from gd2fs.bench.tier.advised import Cancelled, DontNeed, WillNeed
from gd2fs.bench.tier.beside import BesideDemotion
from gd2fs.bench.tier.cold import ColdReads, OverMemory
from gd2fs.bench.tier.plan import MIB, Settings, quick
from gd2fs.bench.tier.report import rows_of
from gd2fs.bench.tier.run import Outcome, run_tier
from gd2fs.errors import InvalidRequest

GOOD = Outcome(
    cold=ColdReads((0.9e9, 1.8e9), (1e9, 2e9), "psync, 4 in flight", True, False),
    over=OverMemory(reads=96, hits=96, wrong=0),
    beside=BesideDemotion((1e9, 2e9, 4e9), (1e9, 1.9e9, 2e9), (1e8, 1e8, 1e8)),
    willneed=WillNeed((1e9,), (0.95e9,), (1e9,), 0),
    cancelled=Cancelled((12.0, 31.5), (4 * MIB, 8 * MIB), (MIB, MIB)),
    dontneed=DontNeed((65536, 131072), (65536, 131072)),
)


@pytest.fixture
def settings(tmp_path):
    return Settings(folder=tmp_path)


def test_ratios_are_medians_of_the_rounds():
    assert GOOD.cold.ratio == pytest.approx(0.9)
    assert GOOD.beside.ratio == pytest.approx(0.95)
    assert GOOD.cancelled.worst_ms == 31.5


def test_all_of_a_good_run_reach_their_targets(settings):
    assert [cells[-1] for cells in rows_of(GOOD, settings)] == ["✓"] * 6


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, {"cold": ColdReads((0.8e9,), (1e9,), "", True, False)}),
        (1, {"beside": BesideDemotion((1e9,), (0.89e9,), (1e8,))}),
        (2, {"willneed": WillNeed((1e9,), (0.8e9,), (1e9,), 0)}),
        (2, {"willneed": WillNeed((1e9,), (1e9,), (1e9,), 4096)}),
        (3, {"cancelled": Cancelled((50.1,), (0,), (MIB,))}),
        (3, {"cancelled": Cancelled((0.0,), (0,), (1024 * MIB,))}),
        (4, {"dontneed": DontNeed((65536,), (65535,))}),
        (5, {"over": OverMemory(96, 95, 0)}),
        (5, {"over": OverMemory(96, 96, 1)}),
    ],
)
def test_what_misses_its_target_is_marked(settings, row, change):
    marks = [cells[-1] for cells in rows_of(dataclasses.replace(GOOD, **change), settings)]

    assert marks == ["✗" if at == row else "✓" for at in range(6)]


def test_a_folder_without_room_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InvalidRequest, match="bytes free"):
        run_tier(Settings(folder=tmp_path, memory_bytes=1 << 50), Board())

    assert list(tmp_path.iterdir()) == []


def test_a_trial_is_small_and_in_the_same_folder(settings):
    assert quick(settings).folder == settings.folder
    assert quick(settings).disk_bytes < settings.disk_bytes / 3


@pytest.mark.parametrize("words", ["--memory 5MiB", "--file 65MiB", "--rate 1KiB"])
def test_sizes_that_cannot_be_are_refused(tmp_path, words):
    result = CliRunner().invoke(bench_app, ["tier", "--folder", str(tmp_path), *words.split()])

    assert isinstance(result.exception, InvalidRequest)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_trial_hits_everything_frees_exactly_and_leaves_nothing_behind(tmp_path):
    folder, told = tmp_path / "disk", tmp_path / "told.json"
    words = ["tier", "--quick", "--arena", "memfd", "--folder", str(folder), "--json", str(told)]

    result = CliRunner().invoke(bench_app, words)

    assert result.exit_code == 0, result.output
    figures = json.loads(told.read_text())["tier"]
    assert figures["over"]["hits"] == figures["over"]["reads"]
    assert figures["over"]["wrong"] == 0
    assert figures["dontneed"]["freed"] == figures["dontneed"]["wanted"]
    assert figures["willneed"]["loaded_by_reads"] == 0
    assert list(folder.iterdir()) == []
