"""Recordings of real nodes, and what the simulator makes of them."""

from __future__ import annotations

import json

import pytest
from key_trace.recorded_nodes import PAGE_BYTES, probes_of, recorded_nodes, replay
from sim.made_traces import small_trace

from gd2fs.errors import InvalidRequest
from gd2fs.key_trace import Recording, header_of, lines_of
from gd2fs.sim.figures import figures_of
from gd2fs.sim.fleet import Fleet, Store
from gd2fs.sim.playing import play
from gd2fs.sim.reading import read_trace

pytestmark = pytest.mark.slow

EACH = 40  # blocks that a node has room for


@pytest.fixture(scope="module")
def nodes():
    with recorded_nodes(4) as running:
        for server in running.servers:
            server.set_rules("sim", quota_bytes=EACH * PAGE_BYTES)
        yield running


@pytest.fixture(scope="module")
def recorded(nodes, tmp_path_factory):
    """A file of all that four nodes were asked, and how often each was asked and had it."""
    with nodes.client(timeout_s=20) as client, Recording(client, namespace="sim") as recording:
        replay(client.pages("sim"), small_trace(requests=250, first=400, block=128))
        replay(client.pages("other"), small_trace(requests=1, first=400, block=128))
        header = header_of(recording, 128)
        lines = list(lines_of(recording, 0, 128))
        assert not recording.summary.dropped and not recording.summary.lost
    path = tmp_path_factory.mktemp("recorded") / "all.jsonl"
    path.write_text(header + "".join(lines))
    return path, [probes_of(server, b"sim") for server in nodes.servers]


def simulated(path, **store) -> tuple[int, int]:
    played = figures_of(play(read_trace(path), Fleet(store=Store(**store))))["blocks"]
    return played["asked"], played["found"]


@pytest.mark.parametrize("node", range(4))
def test_the_simulator_finds_in_a_nodes_recording_exactly_what_the_node_had(
    recorded, tmp_path, node
):
    path, counted = recorded
    header, *lines = path.read_text().splitlines(keepends=True)
    own = [each for each in lines if json.loads(each)["node"] == f"n{node}"]
    only = tmp_path / "one.jsonl"
    only.write_text(header + "".join(own))

    assert simulated(only, memory_blocks=EACH) == counted[node]


def test_the_recording_of_four_nodes_has_the_hit_rate_that_they_counted(recorded):
    path, counted = recorded
    asked, found = (sum(column) for column in zip(*counted, strict=True))

    assert simulated(path, nodes=4, memory_blocks=4 * EACH) == (asked, found)
    assert asked > 5_000 and 0.1 < found / asked < 0.9


def test_a_recording_says_which_nodes_it_is_of_and_is_in_order(recorded):
    header, *lines = map(json.loads, recorded[0].read_text().splitlines())
    times = [each["timestamp"] for each in lines]

    assert (header["block_tokens"], header["nodes"]) == (128, ["n0", "n1", "n2", "n3"])
    assert times == sorted(times) and times[0] >= 0
    assert {each["node"] for each in lines} == {"n0", "n1", "n2", "n3"}


def test_two_recordings_have_no_number_in_common(nodes):
    key, numbers = [b"key"], []
    with nodes.client(timeout_s=20) as client:
        for _ in range(2):
            with Recording(client) as recording:
                client.pages("numbers").exists(key)
                client.pages("numbers").exists(key)
                lines = [json.loads(each) for each in lines_of(recording, 0, 1)]
            numbers.append({id_ for each in lines for id_ in each["hash_ids"]})

    assert [len(each) for each in numbers] == [1, 1]
    assert not set.intersection(*numbers)


def test_of_one_node_alone_only_that_is_recorded(nodes):
    keys = [f"key{at}".encode() for at in range(64)]
    with nodes.client(timeout_s=20) as client, Recording(client, node="n2") as recording:
        client.pages("alone").exists(keys)
        lines = [json.loads(each) for each in lines_of(recording, 0, 1)]

    assert recording.nodes == ["n2"]
    assert {each["node"] for each in lines} == {"n2"}


def test_nobody_else_records_meanwhile_and_the_first_goes_on(nodes):
    with nodes.client(timeout_s=20) as client, Recording(client) as recording:
        with pytest.raises(InvalidRequest, match="records this node already"):
            Recording(client)
        client.pages("first").exists([b"key"])

        assert [each[2].asked for each in recording.take(is_last=True)] != []
    with nodes.client(timeout_s=20) as client, Recording(client) as recording:
        assert len(recording.nodes) == 4


def test_more_than_one_answer_holds_comes_in_several(nodes):
    keys = [f"{at}".encode() for at in range(20_000)]
    with nodes.client(timeout_s=20) as client, Recording(client, node="n1") as recording:
        for _ in range(3):
            client.pages("many").exists(keys)
        owned = probes_of(nodes.servers[1], b"many")[0]
        lines = [json.loads(each) for each in lines_of(recording, 0, 1)]

    assert sum(len(each["hash_ids"]) for each in lines) == owned > 12_000


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: Recording(client, node="n9"),
        lambda client: client.settings({"do": "show"}, node="n9"),
        lambda client: client.drain("n9"),
    ],
)
def test_a_name_that_no_node_has_is_told_with_those_that_there_are(nodes, ask):
    with nodes.client(timeout_s=20) as client, pytest.raises(InvalidRequest) as refused:
        ask(client)

    assert "no node `n9`" in str(refused.value)
    assert refused.value.hint == "there are n0, n1, n2, n3"
