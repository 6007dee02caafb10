"""Answers: what the nodes of a cluster say of themselves when they are asked one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from gd2fs import Client, NodeStatus
from gd2fs.answers import ClusterStatus
from gd2fs.errors import GD2FSError

TIMEOUT_S = 3.0
ASKED_AT_ONCE = 16
TURNS = 3  # of which the quickest says most about the clock
SETTLE_S = 3.0  # for a change of the map to reach everybody
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What one node said.

    Attributes:
        name: Of the node.
        facts: See ``node_facts``; empty when it does not tell.
        skew_s: Its clock less ours.
        doubt_s: By how much that may be wrong.
        settings: As ``gd2fs config show`` has them; empty when it does not tell.
        fault: Why it said nothing; empty when it did.
    """

    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    skew_s: float = 0.0
    doubt_s: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """What there is to compare.

    Attributes:
        status: The map that the first node which answered goes by; None: nobody did.
        nodes: How they are.
        answers: What they said, by their names.
        fault: Why nobody could be asked; empty when somebody could.
    """

    status: ClusterStatus | None = None
    nodes: Sequence[NodeStatus] = ()
    answers: Mapping[str, NodeAnswer] = field(default_factory=dict)
    fault: str = ""


def ask_cluster(
    connect: Callable[[str | None], Client], clock: Callable[[], float] = time.time
) -> ClusterAnswer:
    """Ask every node of the cluster.

    Args:
        connect: Gives a client of given nodes, or of those that the user named.
        clock: Of this machine, Unix time in seconds.
    """
    try:
        with connect(None) as client:
            nodes = _settled(client)
            status = client.cluster()
            alive = [each.name for each in nodes if each.state != "gone"]
            with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
                told = list(threads.map(lambda name: _ask(client, name, clock), alive))
    except GD2FSError as error:
        return ClusterAnswer(fault=str(error))
    answers = {each.name: each for each in told}
    silent = [each for each in status.nodes if each.name not in answers and each.state != "gone"]
    for each in silent:
        answers[each.name] = _ask_alone(connect, each.name, each.addresses[0], clock)
    return ClusterAnswer(status, nodes, answers)


def _settled(client: Client) -> Sequence[NodeStatus]:
    """How the nodes are, once they go by one map, or it seems that they never will."""
    end_s = time.monotonic() + SETTLE_S
    while True:
        nodes = client.ping(timeout_s=TIMEOUT_S)
        epochs = {each.epoch for each in nodes if each.state != "gone"}
        if len(epochs) <= 1 or time.monotonic() >= end_s:
            return nodes
        time.sleep(POLL_S)


def _ask_alone(
    connect: Callable[[str | None], Client], name: str, address: str, clock: Callable[[], float]
) -> NodeAnswer:
    """Of a node that refuses whoever goes by another list: by its own one it answers."""
    try:
        with connect(address) as client:
            return _ask(client, name, clock)
    except GD2FSError as error:
        return NodeAnswer(name, fault=str(error))


def _ask(client: Client, name: str, clock: Callable[[], float]) -> NodeAnswer:
    try:
        turns = [_facts(client, name, clock) for _ in range(TURNS)]
        best = min(turns, key=lambda each: each.doubt_s)
        if best.fault:
            return best
        replies = client.settings({"do": "show"}, node=name, timeout_s=TIMEOUT_S)
    except GD2FSError as error:
        return NodeAnswer(name, fault=str(error))
    told = replies[0].value if replies else None
    return replace(best, settings=(told or {}).get("settings", {}))


def _facts(client: Client, name: str, clock: Callable[[], float]) -> NodeAnswer:
    before_s = clock()
    [reply] = client.settings({"do": "facts"}, node=name, timeout_s=TIMEOUT_S)
    after_s = clock()
    facts = reply.value or {}
    if "version" not in facts:
        return NodeAnswer(name, fault=reply.fault or str(facts.get("error", "it does not tell")))
    there_s = float(facts["now_us"]) / 1e6
    skew_s = there_s - (before_s + after_s) / 2
    return NodeAnswer(name, facts, skew_s, (after_s - before_s) / 2)
