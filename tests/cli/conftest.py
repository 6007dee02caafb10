"""A cluster of processes, and `gd2fs` run against it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gd2fs import Client
from gd2fs.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(2, "256MiB", str(tmp_path_factory.mktemp("nodes")), name="cli") as running:
        yield running


@pytest.fixture(autouse=True)
def clean(cluster):
    yield
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.clear("t")


@pytest.fixture
def run(cluster, tmp_path):
    """Run `gd2fs` with the cluster in its environment; nothing may end in a traceback."""

    def run_words(
        *words: object, cp: str = cluster.cp, name: str = cluster.name, stdin: bytes = b""
    ):
        command = [sys.executable, "-m", "gd2fs", *map(str, words)]
        environment = os.environ | {"GD2FS_CPADDR": cp, "GD2FS_CLUSTER": name}
        done = subprocess.run(
            command, input=stdin, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done

    return run_words


@pytest.fixture
def local(tmp_path):
    def make(size: int, name: str = "local"):
        (tmp_path / name).write_bytes(os.urandom(size))
        return tmp_path / name

    return make
