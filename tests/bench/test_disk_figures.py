"""The disk benchmark: its figures, and a small run of the real thing."""

import shutil

import pytest
from typer.testing import CliRunner

from gd2fs.bench.commands import bench_app
from gd2fs.bench.disk.commands import report
from gd2fs.bench.disk.run import Outcome, Round, Settings, run_disk
from gd2fs.errors import InvalidRequest


def outcome(*rates):
    return Outcome(
        is_uring=True,
        is_direct=True,
        is_huge=False,
        rounds=tuple(Round(*each) for each in rates),
        written=1e9,
        scanned_records=256,
        scanned_bytes=1 << 30,
        scan_ms=100,
    )


def test_the_ratio_is_the_median_of_the_rounds():
    figures = outcome((1e9, 0.5e9, 1e9), (2e9, 1.8e9, 2e9), (1e9, 2e9, 3e9))

    assert figures.ratio == pytest.approx(0.9)
    assert figures.plain_ratio == pytest.approx(1.0)


def test_the_time_of_a_start_is_told_for_a_tebibyte():
    assert outcome((1, 1, 1)).scan_s_per_tib == pytest.approx(102.4)


def test_the_report_says_whether_targets_are_reached():
    (ratio_line,) = [line for line in report(outcome((1e9, 0.8e9, 1e9))) if "verified" in line][:1]

    assert "0.80" in ratio_line
    assert "✗" in ratio_line


def test_a_folder_without_room_is_refused_before_anything_is_written(tmp_path):
    settings = Settings(
        folder=tmp_path,
        total_bytes=1 << 60,
        record_bytes=1 << 22,
        depth=4,
        io="auto",
        arena="auto",
        rounds=1,
        seconds=0.1,
    )

    with pytest.raises(InvalidRequest, match="bytes free"):
        run_disk(settings, print)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_a_small_run_leaves_nothing_behind(tmp_path):
    words = f"disk --folder {tmp_path} --bytes 64MiB --record 1MiB --repeat 1 --seconds 0.2"

    result = CliRunner().invoke(bench_app, [*words.split(), "--io", "threads", "--depth", "4"])

    assert result.exit_code == 0, result.output
    assert "64 records" in result.output
    assert list(tmp_path.iterdir()) == []
