"""The README's code runs as it stands there, against a real node on a free port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gd2fs.testing.cluster import Cluster

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
CLIENT_SHELL = [text for language, text in BLOCKS if language == "sh" and "gd2fs put" in text]
GD2FS = f'gd2fs() {{ "{sys.executable}" -m gd2fs "$@"; }}\n'  # installed or not
SERVE = re.findall(r"^gd2fs (serve .*)$", README, re.MULTILINE)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with Cluster(1, "256MiB", str(tmp_path_factory.mktemp("node")), name="demo") as running:
        yield running


@pytest.fixture
def run(node, tmp_path):
    def run_text(command: list[str], text: str) -> str:
        here = text.replace("127.0.0.1:7527", node.members[0].address)
        (tmp_path / "model.kv").write_bytes(os.urandom(1 << 20))
        done = subprocess.run(
            [*command, here],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_text


def test_the_readme_has_code_of_each_kind():
    assert PYTHON and CLIENT_SHELL and SERVE


@pytest.mark.parametrize("text", PYTHON)
def test_python_prints_what_its_comments_say(run, text):
    printed = run([sys.executable, "-c"], text).split("\n")

    promised = re.findall(r"^ *print\(.*# (\w+):", text, re.MULTILINE)
    assert printed[: len(promised)] == promised


@pytest.mark.parametrize("text", CLIENT_SHELL)
def test_shell_commands_bring_the_same_bytes_back(run, text, tmp_path):
    run(["bash", "-euo", "pipefail", "-c"], GD2FS + text)

    assert (tmp_path / "back.kv").read_bytes() == (tmp_path / "model.kv").read_bytes()


@pytest.mark.parametrize("text", SERVE)
def test_options_of_serve_are_those_that_exist(text):
    shown = subprocess.run(
        [sys.executable, "-m", "gd2fs", "serve", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout

    missing = [word for word in text.split() if word.startswith("--") and word not in shown]
    assert not missing
