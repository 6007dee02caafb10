"""The tier below memory: a real node, its options, its metrics, and what a restart finds."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import urllib.request

import pytest
from test_node import Serve

from gd2fs import Client
from gd2fs.config import NodeConfig, parse_bytes
from gd2fs.errors import InvalidRequest
from gd2fs.nvme import Nvme, NvmePlace, parse_places

PAGE_BYTES = 1 << 20
COUNT = 72  # three times what the memory of these nodes has room for
MEMORY = "24MiB"
WRITTEN_S = 30.0


def page_of(number: int) -> bytes:
    return random.Random(number).randbytes(PAGE_BYTES)


def keys_of(numbers: range) -> list[str]:
    return [f"page{number}" for number in numbers]


def put_all(client: Client) -> None:
    pages = client.pages("kv")
    for number in range(COUNT):
        pages.put([f"page{number}"], [page_of(number)], timeout_s=WRITTEN_S)


def wrong_pages(client: Client) -> list[int]:
    pages = client.pages("kv")
    into = bytearray(PAGE_BYTES)
    wrong = []
    for number in range(COUNT):
        found = pages.get([f"page{number}"], [into], timeout_s=WRITTEN_S)
        if list(found) != [PAGE_BYTES] or into != page_of(number):
            wrong.append(number)
    return wrong


def metrics_of(serve: Serve) -> dict[str, float]:
    with urllib.request.urlopen(f"{serve.facts['admin']}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    found = re.findall(r"^(gd2fs_nvme\S*|gd2fs_corrupt\S*) (\S+)$", text, re.M)
    return {name: float(value) for name, value in found}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "nvme"


def serve_with(folder, *words: str) -> Serve:
    return Serve(
        *("--listen", "tcp://127.0.0.1:0", "--name", "n0", "--admin", "127.0.0.1:0"),
        *("--arena", "plain", "--nvme", f"{folder}:256MiB", *words),
        memory=MEMORY,
    )


@pytest.mark.slow
def test_three_times_the_memory_is_all_there_and_after_a_restart_too(folder):
    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        put_all(client)
        assert wrong_pages(client) == []
        assert all(client.pages("kv").exists(keys_of(range(COUNT))))
        told = metrics_of(node)
        assert told["gd2fs_nvme_loaded_pieces_total"] > COUNT / 2
        assert told["gd2fs_nvme_failed_places"] == 0
        assert told["gd2fs_nvme_losing"] == 0
        assert node.end()[0] == 0

    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        assert metrics_of(node)["gd2fs_nvme_recovered_pieces_total"] == COUNT
        assert wrong_pages(client) == []


@pytest.mark.slow
def test_a_file_that_is_on_disk_is_read_like_any_other(folder):
    content = random.Random(1).randbytes((9 << 20) + 77)
    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        client.put("/kv/file", content, chunk_bytes=1 << 20)
        put_all(client)

        assert client.get("/kv/file", timeout_s=WRITTEN_S) == content


@pytest.mark.slow
def test_status_tells_what_is_on_disk(folder):
    with serve_with(folder, "--nvme-write", "through") as node:
        with Client(node.address, cluster="node") as client:
            put_all(client)
        said = subprocess.run(
            [
                *(sys.executable, "-m", "gd2fs", "status", "--json", "--cp", node.address),
                *("--cluster", "node"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )

    (status,) = json.loads(said.stdout)["nodes"]
    assert status["nvme_bytes"] == 256 << 20
    assert status["nvme_live_bytes"] >= (COUNT - 24) * PAGE_BYTES
    assert status["nvme_fault"] == ""


def test_places_are_folders_with_sizes():
    assert parse_places("/a:1GiB, /b:8MiB,/c", parse_bytes) == (
        NvmePlace("/a", 1 << 30),
        NvmePlace("/b", 8 << 20),
        NvmePlace("/c", 0),
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"nvme": ":1GiB"}, "no folder"),
        ({"nvme": "/a:1MiB"}, "too few"),
        ({"nvme": "/a:much"}, "not a size"),
        ({"nvme": "/a,/a:1GiB"}, "twice"),
        ({"nvme": "/a", "nvme_rate": "1KiB"}, "too slow"),
        ({"nvme": "/a", "nvme_write": "later"}, "--nvme-write"),
        ({"nvme": "/a", "nvme_keep": "none"}, "--nvme-keep"),
    ],
)
def test_options_that_mean_nothing_are_refused(words, reason):
    plain = {
        "cluster": "c",
        "listen": "127.0.0.1:0",
        "memory": "64MiB",
        "peers": None,
        "name": None,
        "advertise": None,
        "arena": "auto",
        "admin": None,
        "threads": 1,
        "zero_copy": "auto",
    }
    with pytest.raises(InvalidRequest, match=reason):
        NodeConfig.parse(**plain, **words, environment={})


def test_without_a_size_a_folder_may_take_what_is_free(tmp_path):
    ((folder, size),) = Nvme((NvmePlace(str(tmp_path / "new")),)).sized()

    assert folder == str(tmp_path / "new")
    assert size >= 8 << 20
