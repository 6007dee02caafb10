"""The core's own tests, compiled: one binary per source. `make core-tests` builds them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("GD2FS_CORE_TESTS", ROOT / "build" / "core"))
NAMES = sorted(path.stem for path in (ROOT / "tests" / "core").glob("test_*.cc"))
TEST_S_MAX = 110

pytestmark = pytest.mark.slow


def test_the_core_has_tests():
    assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_core(name):
    binary = BUILD / name
    assert binary.exists(), f"{binary} is not built: run `make core-tests`"

    done = subprocess.run([binary], capture_output=True, text=True, timeout=TEST_S_MAX)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
