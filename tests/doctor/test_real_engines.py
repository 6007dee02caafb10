"""Processes with the command lines of engines are found by the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from gd2fs.engines.sglang.launch import SglangServer
from gd2fs.engines.vllm.launch import VllmServer

STORE = {"cp": "gd2fs://10.0.0.1:7527", "cluster": "c"}
SGLANG = SglangServer("/models/m", 30000, store=STORE, served_name="of-the-doctor")
VLLM = VllmServer("/models/m", 8000, store=STORE, prompts_only=False, served_name="of-the-doctor")
WAITS = "import sys; print(flush=True); sys.stdin.read()"

pytestmark = pytest.mark.slow


def stand_in(undo: ExitStack, command: list[str], **variables: str) -> int:
    """A process that only waits, with the words and the environment of an engine."""
    words = [sys.executable, "-c", WAITS, *command[1:]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = undo.enter_context(subprocess.Popen(words, env=os.environ | variables, **pipes))
    undo.callback(process.kill)
    assert process.stdout.readline() == b"\n"
    return process.pid


def found_by(engine: str) -> list[tuple[str, str]]:
    """What the command says of servers here, ours among them: check and what it found."""
    words = ["doctor", "--engine", engine, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "gd2fs", *words], capture_output=True, text=True, timeout=60
    )
    told = json.loads(done.stdout)["findings"]
    own = [each for each in told if each["group"] == "engine" and each["severity"] != "ok"]
    return [(each["check"], each["found"]) for each in own]


def test_vllm_servers_with_other_seeds_are_found():
    with ExitStack() as undo:
        pids = [stand_in(undo, VLLM.command("python"), PYTHONHASHSEED=seed) for seed in ("7", "8")]
        found = found_by("vllm")

    [text] = [text for check, text in found if check == "seed of hashes" and str(pids[0]) in text]
    assert text.startswith("PYTHONHASHSEED differs")
    assert [each for each in found if any(f"process {pid}:" in each[1] for pid in pids)] == []


def test_a_sglang_server_without_gd2fs_is_found():
    with ExitStack() as undo:
        pid = stand_in(undo, replace(SGLANG, store=None).command("python"))
        stand_in(undo, [*SGLANG.command("python"), "--page-size", "16"])
        found = found_by("sglang")

    assert ("HiCache", f"process {pid}: no dynamic storage backend") in found
    assert ("instances alike", "`--page-size` differs: 16, 64") in found
