"""Nodes that do not agree are found: real ones on loopback, and what else answers can say."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from gd2fs import Client, NodeStatus
from gd2fs.answers import ClusterStatus, MapNode
from gd2fs.doctor import Severity, Subject, cluster
from gd2fs.doctor.answers import ClusterAnswer, NodeAnswer, ask_cluster
from gd2fs.testing.cluster import Cluster, free_ports

GIB = 1 << 30
FACTS = {
    "version": "0.1.0",
    "kernel": "6.1.0",
    "list": "ab" * 16,
    "epoch": 3,
    "links": [["e", 9000]],
}
NAMES = ("a", "b", "c")


def settled(**changes) -> ClusterAnswer:
    """Three nodes that agree, and then ``changes``."""
    nodes = [
        NodeStatus(name, 1, 3, "active", "hugetlb", "on", GIB, GIB, transport="tcp")
        for name in NAMES
    ]
    members = tuple(
        MapNode(name, (f"10.0.0.{at}:7527",), 1, 1, "active") for at, name in enumerate(NAMES)
    )
    status = ClusterStatus(3, "static", 2, {}, 0.0, members)
    answers = {name: NodeAnswer(name, FACTS, 0.001, 0.001, {"memory": "1GiB"}) for name in NAMES}
    return replace(ClusterAnswer(status, nodes, answers), **changes)


def but(name: str, **changes) -> dict[str, NodeAnswer]:
    """Answers of which one is otherwise; facts among the changes are put into its facts."""
    answers = dict(settled().answers)
    facts = changes.pop("facts", {})
    answers[name] = replace(answers[name], facts={**FACTS, **facts}, **changes)
    return answers


def node_but(name: str, **changes) -> list[NodeStatus]:
    return [replace(each, **changes) if each.name == name else each for each in settled().nodes]


def faults_of(answer: ClusterAnswer) -> list[tuple[str, Severity, str]]:
    findings = [
        finding
        for check in vars(cluster).values()
        if isinstance(check, type(cluster.nodes))
        for finding in check.run(Subject(None, cluster=answer), "cluster")  # type: ignore[arg-type]
    ]
    assert all(each.fix for each in findings if each.severity is not Severity.OK)
    return [(each.check, each.severity, each.found) for each in findings if each.severity.value]


def test_nodes_that_agree_are_well():
    assert faults_of(settled()) == []


OTHER_RULES = {"default": {"class": 1}}
DIFFERENCES = [
    ({"answers": but("b", facts={"version": "0.2.0"})}, "versions", "WARNING", "0.2.0 on b"),
    ({"answers": but("b", facts={"list": "cd" * 16})}, "list of nodes", "ERROR", "on b"),
    ({"nodes": node_but("c", epoch=2)}, "epoch", "WARNING", "epoch 2 on c"),
    ({"answers": but("a", skew_s=-4.0)}, "clocks", "WARNING", "a is 4 s behind"),
    ({"answers": but("a", skew_s=900.0)}, "clocks", "ERROR", "900 s ahead"),
    ({"nodes": node_but("c", arena_bytes=GIB // 4)}, "memory of nodes", "WARNING", "256 MiB"),
    ({"nodes": node_but("c", rung="plain")}, "arenas", "WARNING", "plain on c"),
    ({"nodes": node_but("c", zero_copy="off: pipes")}, "arenas", "NOTE", "off: pipes on c"),
    ({"nodes": node_but("c", nvme_fault="EIO")}, "nodes", "ERROR", "writes to no disk: EIO"),
    ({"answers": but("b", facts={"links": [["e", 1500]]})}, "MTU of nodes", "WARNING", "1500 on b"),
    ({"answers": but("b", settings=OTHER_RULES)}, "rules of nodes", "WARNING", "on b"),
    ({"answers": but("b", facts={"kernel": "5.10.1"})}, "kernels", "NOTE", "5.10.1 on b"),
    ({"status": replace(settled().status, replicas=4)}, "replicas", "WARNING", "on 3 nodes"),
]


@pytest.mark.parametrize(("changes", "check", "severity", "words"), DIFFERENCES)
def test_what_differs_is_found(changes, check, severity, words):
    [(found_by, how_bad, found)] = faults_of(settled(**changes))

    assert (found_by, how_bad) == (check, Severity[severity])
    assert words in found


def test_a_clock_that_may_be_right_is_no_fault():
    assert faults_of(settled(answers=but("a", skew_s=2.0, doubt_s=1.9))) == []


def test_another_version_than_this_program_is_found():
    answers = {
        name: replace(each, facts={**FACTS, "version": "9.0.0"}) for name, each in but("a").items()
    }

    [(check, _, found)] = faults_of(settled(answers=answers))

    assert check == "versions"
    assert "nodes have 9.0.0, this program has" in found


def test_a_node_that_is_silent_is_one_finding():
    silent = {
        "nodes": node_but("c", state="gone", fault="Connection refused"),
        "answers": {**but("a"), "c": NodeAnswer("c", fault="cannot reach 10.0.0.2:7527")},
    }

    [(check, severity, _)] = faults_of(settled(**silent))

    assert (check, severity) == ("nodes", Severity.ERROR)


def test_who_may_not_ask_is_told_to_ask_with_another_token():
    answers = {**but("a"), "b": NodeAnswer("b", fault="settings: denied by every node")}
    subject = Subject(None, cluster=settled(answers=answers))  # type: ignore[arg-type]

    [fix] = [each.fix for each in cluster.versions.run(subject, "cluster") if each.fix]

    assert "--token-file" in fix


# ---- real nodes ----------------------------------------------------------------------------------

LATER = "import time, gd2fs; gd2fs.__version__ = '0.9.9'; now = time.time_ns\n"
LATER += "from gd2fs import node_facts as f\n"
LATER += "f.node_facts.__kwdefaults__['now_ns'] = lambda: now() + 7_000_000_000\n"
LATER += "from gd2fs.cli import main; import sys; sys.exit(main())"


def connect_to(cp: str, name: str, address: str | None) -> Client:
    return Client(address or cp, cluster=name, io_threads=1, streams=1, timeout_s=10)


def unwell(answer: ClusterAnswer) -> dict[str, str]:
    return {check: found for check, _, found in faults_of(answer)}


@pytest.fixture
def pair(tmp_path):
    return Cluster(2, "64MiB", str(tmp_path), name="pair", options=("--replicas", "2"))


@pytest.mark.slow
def test_real_nodes_that_agree_are_well(pair):
    with pair as running:
        answer = ask_cluster(partial(connect_to, running.cp, running.name))

    assert set(answer.answers) == {"n0", "n1"}
    assert unwell(answer) == {}


@pytest.mark.slow
def test_a_node_of_another_version_with_another_clock_and_other_rules_is_found(pair):
    with pair as running:
        late = running.members[1]
        late.stop()
        late.command = [sys.executable, "-c", LATER, *late.command[3:]]
        late.start()
        with connect_to(running.cp, running.name, None) as client:
            client.settings({"do": "set", "key": "default.class", "value": 5}, node="n0")
        found = unwell(ask_cluster(partial(connect_to, running.cp, running.name)))

    assert set(found) == {"versions", "clocks", "rules of nodes"}
    assert "0.9.9 on n1" in found["versions"]
    assert found["clocks"].startswith(
        ("n1 is 7 s ahead", "n1 is 6.99 s ahead", "n1 is 7.01 s ahead")
    )


@pytest.mark.slow
def test_a_node_with_another_list_is_found(pair):
    """It begins while the others are silent, as after a change that did not reach all."""
    with pair as running:
        first, second = running.members
        second.stop()
        first.send(signal.SIGSTOP)
        at = second.command.index("--peers") + 1
        second.command[at] += f",n2=127.0.0.1:{free_ports(1)[0]}"
        second.start()
        first.send(signal.SIGCONT)
        found = unwell(ask_cluster(partial(connect_to, first.address, running.name)))

    assert "on n0" in found["list of nodes"]
    assert "on n1" in found["list of nodes"]
    assert "nodes" not in found


@pytest.mark.slow
def test_a_node_that_was_killed_is_found(pair):
    with pair as running:
        running.members[1].kill()
        found = unwell(ask_cluster(partial(connect_to, running.members[0].address, running.name)))

    assert found["nodes"].startswith("n1 does not answer")


def test_nobody_who_answers_is_an_error(tmp_path):
    port = free_ports(1)[0]
    words = ["doctor", "--cp", f"127.0.0.1:{port}", "--cluster", "none", "--json"]

    done = subprocess.run(
        [sys.executable, "-m", "gd2fs", *words], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 1
    assert "nobody answers" in done.stdout
