"""What the tests of vLLM start from: a model, nodes of a store, and two servers that share it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.environments import PLACE, locked
from engines.vllm.peers import Peer
from transformers import AutoTokenizer

from gd2fs.testing import Cluster, LocalNodes

HERE = Path(__file__).resolve().parent
MODEL = PLACE / "models" / "smollm2"
MAKE_S = 300.0
START_S = 600.0  # of two servers side by side on two busy cores; half a minute when these are idle


@pytest.fixture(scope="session")
def model() -> str:
    """Folder of the checkpoint, made once."""
    stamp = MODEL / "made"
    MODEL.parent.mkdir(parents=True, exist_ok=True)
    with locked(MODEL.parent / "smollm2.lock"):
        if not stamp.is_file():
            command = [sys.executable, str(HERE / "model.py"), str(MODEL)]
            subprocess.run(command, check=True, timeout=MAKE_S, capture_output=True)
            stamp.touch()
    return str(MODEL)


@pytest.fixture(scope="session")
def nodes() -> Iterator[LocalNodes]:
    with LocalNodes(2) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def tokenizer(model: str) -> Any:
    return AutoTokenizer.from_pretrained(model)


@pytest.fixture(scope="session")
def arena() -> Iterator[Path]:
    """Where the node's memory is a file, so that a test can damage it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gd2fs-test-") as folder:
        yield Path(folder) / "n0"


@pytest.fixture(scope="session")
def store(arena: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One node, as a process of its own."""
    folder = tmp_path_factory.mktemp("store")
    with Cluster(1, "512MiB", str(folder), arena=f"file:{arena}") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def peers(
    model: str, store: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Peer, Peer]]:
    """Two servers on one store. One finds the tier by its name, the other by its module."""
    folder = tmp_path_factory.mktemp("servers")
    first = Peer("first", model, store, folder, tier={"type": "gd2fs"})
    second = Peer("second", model, store, folder)
    try:
        for each in (first, second):
            each.server.launch()
        for each in (first, second):
            each.server.wait_healthy(START_S)
        yield first, second
    finally:
        first.server.stop()
        second.server.stop()
