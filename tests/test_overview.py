"""An overview: what the reports of nodes come to, without any node."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from dashboard.simulated import SimulatedCluster, is_silent

from gd2fs.answers import ClusterStatus, MapNode, NodeReply
from gd2fs.config import NodeConfig
from gd2fs.errors import Closed, Unavailable
from gd2fs.overview.desk import IdlingWatch, OverviewDesk
from gd2fs.overview.problems import PROBLEMS_MAX
from gd2fs.overview.report import COUNTS
from gd2fs.overview.watch import RATES, overview_of, shown
from gd2fs.settings import Settings, SettingsDesk
from gd2fs.testing import LocalNodes

MIB = 1 << 20


def status_of(*names: str, state: str = "active", boot: int = 1) -> ClusterStatus:
    nodes = tuple(MapNode(name, (f"{name}:1",), boot, 100, state) for name in names)
    return ClusterStatus(3, "static", 1, {}, 0.0, nodes)


def reply_of(
    name: str, up_ms: int = 10_000, *, version: str = "1", took=(0, 0, 0), gone=(), **counts
):
    """``took``: reads of up to 1 ms, up to 10 ms, and longer."""
    return NodeReply(
        name,
        {
            "up_ms": up_ms,
            "version": version,
            "rung": "plain",
            "state": "active",
            "not_ready": "",
            "epoch": 3,
            "counts": dict.fromkeys(COUNTS, 0) | counts,
            "namespaces": [],
            "lookups": [],
            "buckets": {"bounds_s": [0.001, 0.01], "read": list(took), "write": [0, 0, 0]},
            "evictions": list(gone),
        },
    )


def test_counts_are_summed_over_the_nodes_that_answer():
    replies = [reply_of("a", pages=2), reply_of("b", pages=3), NodeReply("c", None, "it is silent")]

    seen = overview_of(status_of("a", "b", "c"), replies)

    assert seen["total"]["counts"]["pages"] == 5
    assert (seen["total"]["nodes"], seen["total"]["answering"]) == (3, 2)


def test_rates_are_of_the_nodes_own_time_between_two_looks():
    before = overview_of(status_of("a"), [reply_of("a", 10_000, bytes_out=MIB, hits=1)])
    later = [reply_of("a", 12_000, bytes_out=5 * MIB, hits=4, misses=1)]

    rates = overview_of(status_of("a"), later, before)["total"]["rates"]

    assert rates["read_bytes_per_s"] == 2 * MIB
    assert rates["hit_rate"] == 0.75


def test_without_lookups_there_is_no_hit_rate():
    before = overview_of(status_of("a"), [reply_of("a", 10_000)])

    rates = overview_of(status_of("a"), [reply_of("a", 12_000)], before)["total"]["rates"]

    assert rates["hit_rate"] is None and rates["read_bytes_per_s"] == 0


@pytest.mark.parametrize(
    ("now", "later"),
    [
        ({"boot": 2}, {"up_ms": 12_000, "bytes_out": MIB}),  # it has started again
        ({}, {"up_ms": 12_000, "bytes_out": 0}),  # likewise, and says the same number
        ({}, {"up_ms": 300_000, "bytes_out": MIB}),  # nobody has looked for long
        ({}, {"up_ms": 10_001, "bytes_out": MIB}),  # too soon
    ],
)
def test_a_node_whose_counts_cannot_be_compared_has_no_rates(now, later):
    before = overview_of(status_of("a"), [reply_of("a", 10_000, bytes_out=1)])

    seen = overview_of(status_of("a", **now), [reply_of("a", **later)], before)

    assert seen["nodes"][0]["rates"] is None and seen["total"]["rates"] is None


def test_a_node_that_came_back_has_rates_from_its_second_report_on():
    silent = overview_of(status_of("a"), [NodeReply("a", None, "it is silent")])
    first = overview_of(status_of("a"), [reply_of("a", 10_000)], silent)

    second = overview_of(status_of("a"), [reply_of("a", 11_000, requests=7)], first)

    assert first["nodes"][0]["rates"] is None
    assert second["nodes"][0]["rates"]["requests_per_s"] == 7


def test_latencies_are_those_of_the_requests_between_two_looks():
    before = overview_of(status_of("a", "b"), [reply_of("a", took=(90, 0, 9)), reply_of("b")])
    later = [reply_of("a", 12_000, took=(100, 0, 9)), reply_of("b", 12_000, took=(0, 10, 0))]

    seen = overview_of(status_of("a", "b"), later, before)

    one, other = (node["latency"]["read"] for node in seen["nodes"])
    assert (one["p50_ms"], one["p99_ms"], other["p50_ms"]) == (0.5, 0.99, 5.5)
    assert seen["total"]["latency"]["read"]["p95_ms"] == 9.1
    assert "write" not in seen["total"]["latency"]
    assert "buckets" not in shown(seen)["nodes"][0]


def test_all_that_is_rated_is_counted():
    assert set(RATES) <= set(COUNTS)


def test_what_went_is_told_with_its_node_the_newest_first():
    gone = [{"last_ms": at, "pieces": 1} for at in (5, 1)]

    seen = overview_of(
        status_of("a", "b"), [reply_of("a", gone=gone), reply_of("b", gone=[{"last_ms": 3}])]
    )

    assert [(each["node"], each["last_ms"]) for each in seen["evictions"]] == [
        ("a", 5),
        ("b", 3),
        ("a", 1),
    ]


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ([NodeReply("a", None, "it does not answer")], "it does not answer"),
        ([NodeReply("a", {"error": "`report` is no request"}, "")], "older version"),
        ([], "no way to it"),
        ([reply_of("a", nvme_failed_places=2)], "2 of its disks are not written to"),
        ([reply_of("a", is_losing=1)], "unwritten"),
        ([reply_of("a", corrupt_pieces=3)], "3 stored copies dropped"),
    ],
)
def test_what_is_wrong_with_a_node_is_said(replies, text):
    [problem] = overview_of(status_of("a"), replies)["problems"]

    assert problem["nodes"] == ["a"] and text in problem["text"]


def test_a_node_that_has_left_is_no_problem():
    assert not overview_of(status_of("a", state="gone"), [])["problems"]


def test_nodes_of_several_versions_are_noted():
    replies = [reply_of("a"), reply_of("b", version="2")]

    [problem] = overview_of(status_of("a", "b"), replies)["problems"]

    assert problem["text"] == "nodes are of several versions: 1, 2"


def test_what_several_nodes_have_in_common_is_one_problem():
    [problem] = overview_of(status_of("a", "b"), [])["problems"]

    assert problem["nodes"] == ["a", "b"]


def test_problems_are_told_up_to_a_number():
    names = [f"n{index}" for index in range(PROBLEMS_MAX + 5)]
    replies = [reply_of(name, corrupt_pieces=at) for at, name in enumerate(names, 1)]

    problems = overview_of(status_of(*names), replies)["problems"]

    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1]["text"] == "5 more problems are not listed"


def test_a_thousand_nodes_fit_into_a_few_megabytes():
    cluster = SimulatedCluster(1000)
    cluster.look()

    seen = cluster.look()

    silent = sum(is_silent(index) for index in range(1000))
    assert seen["total"]["answering"] == 1000 - silent
    assert len(json.dumps(seen)) < 2 * MIB


# ---- the desk ------------------------------------------------------------------------------------


def test_all_who_ask_within_a_second_get_the_same_look():
    looks = itertools.count()
    desk = OverviewDesk(lambda: {"number": next(looks)})

    async def ask_often():
        return await asyncio.gather(*(desk.seen() for _ in range(50)))

    seen = asyncio.run(ask_often())

    assert {each.plain for each in seen} == {b'{"number":0}'} and next(looks) == 1


def test_a_look_that_fails_is_tried_again_by_the_next_one_who_asks():
    answers = iter([Unavailable("nobody is there"), {"a": 1}])

    def look():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask_twice():
        desk = OverviewDesk(look)
        with pytest.raises(Unavailable):
            await desk.seen()
        return await desk.seen()

    assert asyncio.run(ask_twice()).plain == b'{"a":1}'


@pytest.fixture
def half_run():
    """Two nodes; somebody sits at the desk of the first alone."""
    with LocalNodes(2) as nodes:
        settings = Settings(NodeConfig("test"), nodes.servers[0])
        desk = SettingsDesk(settings, nodes.servers[0], {"report": lambda _: reply_of("n0").value})
        yield nodes
        desk.stop()


def test_a_node_that_nobody_runs_is_shown_as_one_that_says_nothing(half_run):
    watch = IdlingWatch(half_run.client, seen_by="n0")

    seen = watch.look()

    watch.close()
    assert seen["seen_by"] == "n0"
    assert [node["answers"] for node in seen["nodes"]] == [True, False]
    assert "nobody there" in seen["nodes"][1]["fault"]


def test_there_are_no_looks_after_the_end(half_run):
    watch = IdlingWatch(half_run.client, seen_by="n0")
    watch.look()

    watch.close()

    with pytest.raises(Closed):
        watch.look()
