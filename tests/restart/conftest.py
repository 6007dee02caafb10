"""One real node whose arena and records of files outlive its process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gd2fs.testing.cluster import Cluster


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """A folder on tmpfs: what lies there outlives processes, not the machine."""
    folder = Path(tempfile.mkdtemp(prefix="gd2fs-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def kept_node(memory_folder: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of one."""
    arena = f"file:{memory_folder}/{{name}}"
    with Cluster(1, "64MiB", str(tmp_path), arena=arena) as cluster:
        yield cluster
