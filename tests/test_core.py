"""The core's own tests, compiled: one binary per source. `make core-tests` builds them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gd2fs.ucx import libraries_in_wheels

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("GD2FS_CORE_TESTS", ROOT / "build" / "core"))
NAMES = sorted(path.stem for path in (ROOT / "tests" / "core").glob("test_*.cc"))
# The client's tests, with all of their payload by one-sided transfers: over which of UCX's.
UCX_TLS = ("tcp", "posix,sysv")
TEST_S_MAX = 110

pytestmark = pytest.mark.slow


def test_the_core_has_tests():
    assert NAMES


def passes(name: str, **environment: str) -> None:
    binary = BUILD / name
    assert binary.exists(), f"{binary} is not built: run `make core-tests`"

    # Of the system there may be none, or one that is too old; then they say what they leave out.
    ucx = next(map(str, libraries_in_wheels(("libucx",))), "")
    done = subprocess.run(
        [binary],
        capture_output=True,
        text=True,
        timeout=TEST_S_MAX,
        env={"GD2FS_UCX": ucx, **os.environ, **environment},
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("name", NAMES)
def test_core(name):
    passes(name)


@pytest.mark.parametrize("name", ["test_client", "test_client_files"])
def test_core_under_tls(name):
    passes(f"{name}_tls")


@pytest.mark.parametrize("transports", UCX_TLS)
@pytest.mark.parametrize("name", ["test_client", "test_client_files"])
def test_core_by_one_sided_transfers(name, transports):
    passes(f"{name}_rdma", GD2FS_TEST_UCX_TLS=transports)
