"""`gd2fs bench io` with real nodes and real clients, small: what it writes, and that it looks."""

import json
import subprocess
import sys

import pytest

from gd2fs import Client
from gd2fs.bench.io.case import KIB, Case
from gd2fs.bench.io.memory import Memory, blank, differ, fill, spots_differ
from gd2fs.bench.io.store_jobs import key_of, store_job
from gd2fs.cli import main
from gd2fs.errors import Corrupt

CASE_KEYS = {
    "op": str,
    "transport": str,
    "bytes": int,
    "count": int,
    "streams": int,
    "verify": bool,
    "ms_p50": float,
    "ms_p99": float,
    "ms_p999": float,
    "gbps": float,
    "nodes": int,
    "clients": int,
    "ceiling": str,
    "ratio": float,
}
ODD_BYTES = 300 * KIB + 17


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    file = tmp_path_factory.mktemp("bench") / "io.json"
    words = ["bench", "io", "--quick", "--transports", "tcp", "--repeat", "2"]
    assert main([*words, "--arena", "plain", "--json", str(file)]) == 0
    return json.loads(file.read_text())


@pytest.mark.slow
def test_every_case_has_its_figures_in_their_units(figures):
    assert figures["cases"]
    for case in figures["cases"]:
        found = {name: type(case[name]) for name in CASE_KEYS}
        assert found == CASE_KEYS
        assert 0 < case["ms_p50"] <= case["ms_p99"] <= case["ms_p999"]
        assert case["ratio"] > 0


@pytest.mark.slow
def test_ceilings_are_numbers_by_name(figures):
    assert {"copy", "copy_nontemporal", "tcp_send", "bare_get"} <= set(figures["ceilings"])
    assert all(value > 0 for value in figures["ceilings"].values())


@pytest.mark.slow
def test_the_table_has_reads_writes_batches_and_probes(figures):
    assert {case["op"] for case in figures["cases"]} == {"read", "write", "get", "exists"}


@pytest.mark.slow
def test_a_run_says_what_it_was_measured_on(figures):
    assert figures["machine"]["cores"] >= 1
    assert figures["rung"] == "plain"
    assert isinstance(figures["busy"], bool)


@pytest.mark.slow
def test_several_nodes_and_clients_work_at_once(tmp_path):
    file = tmp_path / "io.json"
    words = "bench io --ops write,exists,put --batches 4x64KiB --sizes 128KiB --transports tcp"
    more = "--nodes 2 --clients 2 --repeat 1 --arena plain --memory 64MiB --json"

    assert main([*words.split(), *more.split(), str(file)]) == 0
    assert {(c["nodes"], c["clients"]) for c in json.loads(file.read_text())["cases"]} == {(2, 2)}


def job_of(client: Client, case: Case):
    source, into = Memory(case.call_bytes).view, Memory(case.call_bytes * case.depth).view
    fill(source, seed=1)
    job = store_job(client, case, 0, source, into)
    job.prepare()
    return job


CASES = [
    Case("read", bytes=ODD_BYTES),
    Case("write", bytes=ODD_BYTES),
    Case("get", bytes=4 * KIB, count=7),
    Case("get", bytes=4 * KIB, count=7, depth=3),
    Case("put", bytes=4 * KIB, count=7),
    Case("exists", bytes=0, count=7),
]


@pytest.mark.parametrize("case", CASES, ids=Case.label)
def test_a_job_counts_every_call_and_finds_its_bytes(one_node_client, case):
    job = job_of(one_node_client, case)
    phase = job.run(5)
    job.check()
    job.finish()

    assert len(phase.calls_ns) == 5
    assert phase.call_ns > 0


def test_an_object_that_others_changed_is_seen(one_node_client):
    job = job_of(one_node_client, Case("read", bytes=ODD_BYTES))
    one_node_client.write("/bench/read-tcp-307217-0", 4096, b"other")

    with pytest.raises(Corrupt):
        job.run(1)


def test_a_single_changed_byte_is_seen_by_the_whole_check(one_node_client):
    job = job_of(one_node_client, Case("read", bytes=ODD_BYTES))
    one_node_client.write("/bench/read-tcp-307217-0", ODD_BYTES - 2, b"\0")
    job.run(1)

    with pytest.raises(Corrupt):
        job.check()


def test_a_view_is_of_the_bytes_that_were_put(shm_client):
    job = job_of(shm_client, Case("view", "shm", bytes=ODD_BYTES))
    phase = job.run(3)
    job.check()
    job.finish()

    assert len(phase.calls_ns) == 3


@pytest.mark.parametrize("depth", [1, 3])
def test_a_page_that_others_changed_is_seen(one_node_client, depth):
    case = Case("get", bytes=4 * KIB, count=7, depth=depth)
    job = job_of(one_node_client, case)
    pages = one_node_client.pages("bench-get-4096-0")
    pages.drop([key_of(0, 3)])
    pages.put([key_of(0, 3)], [bytes(4 * KIB)])

    with pytest.raises(Corrupt):
        job.run(3)


def test_a_page_that_is_gone_is_no_fast_answer(one_node_client):
    job = job_of(one_node_client, Case("get", bytes=4 * KIB, count=7))
    one_node_client.pages("bench-get-4096-0").drop([key_of(0, 3)])

    with pytest.raises(Corrupt):
        job.run(1)


def test_a_wrong_probe_is_seen(one_node_client):
    job = job_of(one_node_client, Case("exists", bytes=0, count=8))
    one_node_client.pages("bench-exists-0").put([key_of(0, 1)], [b"x"])

    with pytest.raises(Corrupt):
        job.run(1)


def test_blank_memory_does_not_pass_for_what_was_stored():
    left, right = Memory(ODD_BYTES).view, Memory(ODD_BYTES).view
    fill(left, seed=1)
    fill(right, seed=1)
    assert not differ(left, right)

    blank(right)

    assert spots_differ(left, right)
    assert differ(left, right)


def test_no_two_blocks_of_the_pattern_are_alike():
    view = Memory(8 << 20).view
    fill(view, seed=1)

    blocks = [bytes(view[at : at + 512]) for at in range(0, len(view), 4096)]

    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize(
    ("memory", "why"), [("4KiB", "4096 bytes of memory are too few"), ("9" * 40, "any machine")]
)
def test_memory_that_no_node_takes_is_said_in_a_line(memory, why):
    words = [sys.executable, "-m", "gd2fs", "bench", "io", "--quick", "--memory", memory]

    done = subprocess.run(words, capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert why in done.stderr
    assert "Traceback" not in done.stderr
