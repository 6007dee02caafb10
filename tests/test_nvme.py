"""The tier below memory: a real node, its options, its metrics, and what a restart finds."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from test_node import Serve

from gd2fs import Client
from gd2fs.config import NodeConfig
from gd2fs.errors import InvalidRequest
from gd2fs.nvme import Nvme, NvmePlace, parse_places
from gd2fs.sizes import parse_bytes

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


def look(client: Client) -> tuple[list[int], list[int]]:
    """Which pages are missed, and which have wrong bytes."""
    pages = client.pages("kv")
    into = bytearray(PAGE_BYTES)
    missed, wrong = [], []
    for number in range(COUNT):
        found = pages.get([f"page{number}"], [into], timeout_s=WRITTEN_S)
        if found.sizes != [PAGE_BYTES]:
            missed.append(number)
        elif into != page_of(number):
            wrong.append(number)
    return missed, wrong


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
        assert look(client) == ([], [])
        assert client.pages("kv").exists(keys_of(range(COUNT))).leading == COUNT
        told = metrics_of(node)
        assert told["gd2fs_nvme_loaded_pieces_total"] > COUNT / 2
        assert told["gd2fs_nvme_failed_places"] == 0
        assert told["gd2fs_nvme_losing"] == 0
        assert node.end()[0] == 0

    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        assert metrics_of(node)["gd2fs_nvme_recovered_pieces_total"] == COUNT
        assert look(client) == ([], [])


def test_serve_says_how_much_of_its_disk_can_hold_data(folder):
    with serve_with(folder) as node:
        facts = node.facts
        said = node.end()[1]

    assert facts["nvme"] == str(256 << 20)
    assert 0.5 < int(facts["nvme_usable"]) / int(facts["nvme"]) < 5 / 8  # of eight segments three
    assert "nvme: 160.0 MiB of 256 MiB can hold data" in said


@pytest.mark.slow
def test_a_rate_that_is_set_at_run_time_holds_at_once(folder):
    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        [reply] = client.settings({"do": "set", "key": "nvme_rate", "value": "1MiB"})
        assert reply.value["settings"]["nvme_rate"] == "1MiB"
        put_all(client)
        told = metrics_of(node)
        assert told["gd2fs_nvme_written_bytes_total"] < COUNT * PAGE_BYTES / 2
        assert told["gd2fs_nvme_unwritten_pieces_total"] > 0
        client.settings({"do": "set", "key": "nvme_rate", "value": None})
        client.pages("kv").drop(keys_of(range(COUNT)))

        put_all(client)

        assert look(client) == ([], [])


@pytest.mark.slow
def test_what_was_synced_outlives_kills_though_it_is_read_and_copies_are_exclusive(folder):
    exclusive = ("--nvme-keep", "exclusive")
    with serve_with(folder, *exclusive) as node, Client(node.address, cluster="node") as client:
        put_all(client)
        kept = client.pages("kv").sync(keys_of(range(COUNT)), timeout_s=WRITTEN_S)
        assert kept == ["disk"] * COUNT
        assert look(client) == ([], [])
        node.end(signal.SIGKILL)

    for _ in range(2):
        with serve_with(folder, *exclusive) as node, Client(node.address, cluster="node") as client:
            assert look(client) == ([], [])
            node.end(signal.SIGKILL)


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
        command = [sys.executable, "-m", "gd2fs", "status", "--json"]
        said = subprocess.run(
            [*command, "--cp", node.address, "--cluster", "node"],
            capture_output=True,
            text=True,
            check=True,
        )

    (status,) = json.loads(said.stdout)["nodes"]
    assert status["nvme_bytes"] == 256 << 20
    assert status["nvme_live_bytes"] >= (COUNT - 24) * PAGE_BYTES
    assert status["nvme_fault"] == ""


@contextlib.contextmanager
def mounted(folder, options: str):
    """A file system of its own, for a disk that is full or read-only."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"needs the right to mount: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=False)


@pytest.mark.slow
def test_a_full_disk_is_an_alarm_and_memory_serves_on(folder):
    with mounted(folder, "size=40m"), serve_with(folder) as node:
        with Client(node.address, cluster="node") as client:
            put_all(client)
            missed, wrong = look(client)
            told = metrics_of(node)
            client.put("/kv/file", b"content")

            assert wrong == []
            assert len(missed) < COUNT
            assert told['gd2fs_nvme_errors_total{kind="full"}'] > 0
            assert client.get("/kv/file") == b"content"
        assert node.end()[0] == 0


@pytest.mark.slow
def test_a_disk_that_can_only_be_read_is_an_alarm_and_memory_serves_on(folder):
    with mounted(folder, "size=64m,ro"), serve_with(folder) as node:
        with Client(node.address, cluster="node") as client:
            put_all(client)
            missed, wrong = look(client)

            assert wrong == []
            assert len(missed) < COUNT
            told = metrics_of(node)
            assert told["gd2fs_nvme_failed_places"] == 1
            assert told["gd2fs_nvme_unwritten_pieces_total"] > 0
            assert client.ping()[0].nvme_fault.endswith("; evicted bytes go unwritten")
        assert node.end()[0] == 0


@pytest.mark.slow
def test_beside_a_disk_that_has_failed_the_other_one_takes_all(folder, tmp_path):
    places = f"{folder}:256MiB,{tmp_path}/sound:256MiB"
    with (
        mounted(folder, "size=64m,ro"),
        Serve(
            *("--listen", "tcp://127.0.0.1:0", "--name", "n0", "--admin", "127.0.0.1:0"),
            *("--arena", "plain", "--state-dir", str(tmp_path / "state"), "--nvme", places),
            memory=MEMORY,
        ) as node,
        Client(node.address, cluster="node") as client,
    ):
        put_all(client)

        assert look(client) == ([], [])
        assert metrics_of(node)["gd2fs_nvme_losing"] == 0
        fault = client.ping()[0].nvme_fault
        assert fault.startswith(f"{folder}: ")
        assert fault.endswith("; others are written to")


@pytest.mark.slow
def test_a_damaged_disk_gives_misses_and_counts_never_wrong_bytes(folder):
    with serve_with(folder) as node:
        with Client(node.address, cluster="node") as client:
            put_all(client)
        assert node.end()[0] == 0
    dice = random.Random(7)
    files = [each for each in folder.rglob("*") if each.stat().st_size > PAGE_BYTES]
    for each in files:
        with each.open("r+b") as file:
            for at in range(0, each.stat().st_size, 5 * PAGE_BYTES):
                file.seek(at + dice.randrange(4 * PAGE_BYTES))
                file.write(b"damaged")

    with serve_with(folder) as node, Client(node.address, cluster="node") as client:
        missed, wrong = look(client)

        assert wrong == []
        assert 0 < len(missed) < COUNT
        told = metrics_of(node)
        seen = told["gd2fs_corrupt_pieces_total"] + told["gd2fs_nvme_corrupt_headers_total"]
        assert seen + told["gd2fs_nvme_torn_records_total"] > 0
        client.pages("kv").drop(keys_of(range(COUNT)))
        put_all(client)
        assert look(client) == ([], [])


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
