"""Promtool: the real one, of Debian's package `prometheus`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "build" / "promtool" / "usr" / "bin" / "promtool"  # by `.ci/deps promtool`


def find() -> str:
    """Where it is; without it the test is skipped, and says how to get it."""
    found = shutil.which("promtool") or (str(UNPACKED) if UNPACKED.exists() else "")
    if not found:
        pytest.skip("no promtool on this machine: run `.ci/deps promtool`")
    return found


def run(*words: str, stdin: str = "") -> str:
    """All that it said; fails when it finds fault."""
    done = subprocess.run(
        [find(), *words], input=stdin, capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
