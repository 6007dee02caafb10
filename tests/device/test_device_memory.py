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
from gd2fs.testing import LocalNodes

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
def test_bytes_bounce_over_rdma_where_no_card_reaches_a_gpu(fake_cuda, libucp, monkeypatch):
    monkeypatch.setenv("GD2FS_UCX", libucp)
    monkeypatch.setenv("GD2FS_UCX_TLS", "tcp")
    settings = {"use": "on", "library": libucp, "transports": "tcp"}
    with LocalNodes(2, rdma=settings) as nodes:
        ended = run(fake_cuda, nodes, "rdma")

        assert ended.returncode == 0, ended.stderr
        tallies = [server.tally()["transports"] for server in nodes.servers]

    names = [name for name, *_ in tallies[0]]
    by_rdma = [ways[names.index("rdma")] for ways in tallies]
    moved = [sum(ways[at] for ways in by_rdma) for at in (1, 2)]  # in, out
    assert min(moved) >= 3_000_001


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
    given = client_config("a", cluster="c", bounce_size="2MiB", environment={})

    assert config_with().devices.bounce_bytes == 128 << 20
    assert config_with(GD2FS_BOUNCE_SIZE="64M").devices.bounce_bytes == 64 << 20
    assert given.devices.bounce_bytes == 2 << 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"GD2FS_BOUNCE_SIZE": "1KiB"},
        {"GD2FS_BOUNCE_SIZE": "1TiB"},
        {"GD2FS_BOUNCE_SIZE": "much"},
        {"GD2FS_LOAD_POLICY": "fast"},
        {"GD2FS_SAVE_POLICY": "rdma"},
        {"GD2FS_LOAD_CHECKS": "-1"},
        {"GD2FS_LOAD_CHECKS": "some"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        config_with(**wrong)


def test_policies_are_as_the_environment_says():
    told = config_with(
        GD2FS_LOAD_POLICY="bounce", GD2FS_SAVE_POLICY="direct", GD2FS_LOAD_CHECKS="0"
    )

    assert (told.devices.load, told.devices.save) == ("bounce", "direct")
    assert told.devices.native()["checked_one_in"] == 0
    assert config_with().devices.native() == {
        "bounce_bytes": 128 << 20,
        "is_load_direct": True,
        "is_save_direct": True,
        "checked_one_in": 64,
    }


@pytest.mark.parametrize(
    ("environment", "warnings"),
    [
        ({}, 0),
        ({"GD2FS_TRANSPORT": "tcp"}, 0),
        ({"GD2FS_LOAD_POLICY": "direct"}, 0),
        ({"GD2FS_LOAD_POLICY": "direct", "GD2FS_TRANSPORT": "tcp"}, 1),
        ({"GD2FS_LOAD_POLICY": "direct", "GD2FS_DPADDR": "rdma://10.0.0.1"}, 0),
    ],
    ids=str,
)
def test_a_policy_that_a_transport_cannot_keep_is_told(caplog, environment, warnings):
    with caplog.at_level(logging.WARNING):
        config_with(**environment)

    assert len(caplog.records) == warnings
