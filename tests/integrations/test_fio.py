"""The fio engine: jobs of the fio that is installed, against real nodes. Needs `make fio`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "build" / "fio" / "gd2fs.so"
RUN_S = 90
CHECKED = ["--bs=1m", "--size=16m", "--verify=xxhash", "--verify_fatal=1", "--verify_state_save=0"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("fio") is None or not ENGINE.exists(),
        reason="fio and its engine are not there: `make fio` brings both",
    ),
]


@pytest.fixture
def fio(three_nodes, path):
    """Runs one job on a file of its own; with ``expected`` for its exit status."""

    def run(*options: str, expected: int = 0) -> str:
        words = ["fio", "--name=job", f"--ioengine=external:{ENGINE}", f"--filename={path}"]
        where = {"GD2FS_CPADDR": f"gd2fs://{three_nodes.cp}", "GD2FS_CLUSTER": three_nodes.cluster}
        ended = subprocess.run(
            [*words, *options],
            env=os.environ | where,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode == expected, said
        return said

    return run


@pytest.mark.parametrize("kind", ["--thread=1", "--thread=0"], ids=["thread", "process"])
@pytest.mark.parametrize("depth", [1, 8])
def test_what_fio_wrote_comes_back(fio, kind, depth):
    fio(*CHECKED, kind, f"--iodepth={depth}", "--rw=write")
    fio(*CHECKED, kind, f"--iodepth={depth}", "--rw=read")
    fio(*CHECKED, kind, f"--iodepth={depth}", "--rw=randwrite")


def test_fio_finds_other_bytes(fio, client, path):
    fio(*CHECKED, "--thread=1", "--rw=write")
    client.write(path, (5 << 20) + 1000, b"other bytes")

    said = fio(*CHECKED, "--thread=1", "--rw=read", expected=1)

    assert "verify" in said


def test_jobs_share_a_file(fio):
    fio(*CHECKED, "--thread=1", "--iodepth=4", "--rw=write", "--numjobs=3")


def test_published_option_names_are_known(fio, three_nodes):
    fio(
        "--thread=1",
        "--rw=write",
        "--size=4m",
        "--bs=4m",
        f"--gd2fs-cpaddr=gd2fs://{three_nodes.cp}",
        f"--gd2fs-cluster={three_nodes.cluster}",
        "--gd2fs-dpaddr=tcp://127.0.0.1",
        "--gd2fs-io-threads=1",
        "--gd2fs-substreams=2",
        "--gd2fs-mem-threads=1",
        "--gd2fs-log-level=error",
    )


def test_a_missing_file_cannot_be_read(fio, path):
    said = fio("--thread=1", "--rw=read", "--size=1m", expected=1)

    assert f"cannot open `{path}`: No such file or directory" in said


def test_a_short_file_cannot_be_read(fio):
    fio("--thread=1", "--rw=write", "--size=1m", "--bs=1m")

    said = fio("--thread=1", "--rw=read", "--size=2m", "--bs=1m", expected=1)

    assert "has 1048576 bytes, the job reads 2097152: write it first" in said
