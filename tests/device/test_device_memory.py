"""Memory of a GPU by way of Python: with a driver that is made for tests, and the real one.

A process of its own for each, since a driver stays loaded for good.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gd2fs.config import client_config
from gd2fs.errors import InvalidRequest

SOURCE = Path(__file__).resolve().parents[1] / "core" / "cuda" / "fake_cuda.c"
PROGRAM = Path(__file__).with_name("use_gpu.py")
TIMEOUT_S = 60.0
WAYS = ("client", "async", "pygd2fs")


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory) -> str:
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to make the driver with")
    library = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    words = [compiler, "-shared", "-fPIC", "-O1", "-pthread", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*words, "-o", str(library), str(SOURCE)], check=True)
    return str(library)


def run(library: str, nodes, way: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(PROGRAM), library, nodes.cp, nodes.cluster, way],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_bytes_go_to_a_gpu_and_back(fake_cuda, three_nodes, way):
    ended = run(fake_cuda, three_nodes, way)

    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_bytes_go_to_the_gpu_of_this_machine_and_back(three_nodes, way):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as missing:
        pytest.skip(f"no GPU here: {missing}")

    ended = run("libcuda.so.1", three_nodes, way)

    assert ended.returncode == 0, ended.stderr


def config_with(**environment: str):
    return client_config("a", cluster="c", environment=environment)


def test_the_pool_is_as_large_as_it_is_told():
    assert config_with().bounce_bytes == 128 << 20
    assert config_with(GD2FS_BOUNCE_SIZE="64M").bounce_bytes == 64 << 20
    assert (
        client_config("a", cluster="c", bounce_size="2MiB", environment={}).bounce_bytes == 2 << 20
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"GD2FS_BOUNCE_SIZE": "1KiB"},
        {"GD2FS_BOUNCE_SIZE": "1TiB"},
        {"GD2FS_BOUNCE_SIZE": "much"},
        {"GD2FS_LOAD_POLICY": "fast"},
        {"GD2FS_SAVE_POLICY": "rdma"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        config_with(**wrong)


@pytest.mark.parametrize(
    ("environment", "warnings"),
    [
        ({}, 0),
        ({"GD2FS_LOAD_POLICY": "bounce", "GD2FS_SAVE_POLICY": "bounce"}, 0),
        ({"GD2FS_LOAD_POLICY": "direct", "GD2FS_SAVE_POLICY": "direct"}, 1),
    ],
)
def test_direct_is_bounce_with_one_warning(caplog, environment, warnings):
    with caplog.at_level(logging.WARNING):
        config_with(**environment)

    assert len(caplog.records) == warnings
