"""Curves: what every node of a cluster would find with more memory or less."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gd2fs.answers import NodeReply
from gd2fs.client import Client
from gd2fs.errors import Unavailable

ASK_S = 2.0


@dataclass(frozen=True, slots=True)
class NamespaceCurve:
    """Of one namespace on one node.

    Attributes:
        name: Empty: all that the node does not tell apart.
        quota_bytes: The memory that it has for itself; 0: it shares the node's.
        looks: Pages and pieces that were asked for, of them ``found``: both counted.
        followed: Looks that the curve is made of.
        piece_bytes: The mean; 0: not known.
        shares: Of looks that memory finds, by steps of its size.
        first_bytes, steps_per_octave: Of these.
    """

    name: str
    quota_bytes: int
    looks: int
    found: int
    followed: int
    piece_bytes: int
    shares: Sequence[float]
    first_bytes: int
    steps_per_octave: float

    def share_within(self, size: float) -> float:
        """Of looks, what ``size`` bytes find. Between two steps it is a line."""
        if size < self.first_bytes:
            return 0.0
        at = math.log2(size / self.first_bytes) * self.steps_per_octave
        last = len(self.shares) - 1
        if at >= last:
            return self.shares[last]
        step = int(at)
        part = at - step
        return (1 - part) * self.shares[step] + part * self.shares[step + 1]


@dataclass(frozen=True, slots=True)
class NodeCurves:
    """Of one node.

    Attributes:
        node: Its name.
        span_s: Of what it was asked.
        arena_bytes: All of its memory.
        memory_bytes: Of these, what namespaces without a quota share.
        disk_bytes: Below it; 0: there is none.
        namespaces: Those that were asked for.
    """

    node: str
    span_s: float
    arena_bytes: int
    memory_bytes: int
    disk_bytes: int
    namespaces: Sequence[NamespaceCurve]


def curves_of(client: Client) -> tuple[list[NodeCurves], dict[str, str]]:
    """Ask every node. Those that say nothing are told with the reason.

    Raises:
        InvalidRequest: No node lets this client ask: it takes the right to read everywhere.
        Unavailable: No node has answered.
    """
    replies = client.settings({"do": "curves"}, timeout_s=ASK_S)
    told = {
        each.node: each.value for each in replies if each.value and "memory_bytes" in each.value
    }
    silent = {each.node: _fault(each) for each in replies if each.node not in told}
    if not told:
        raise Unavailable("no node tells its curves", hint="; ".join(silent.values()))
    return [node_curves(name, value) for name, value in sorted(told.items())], silent


def node_curves(node: str, told: Mapping[str, Any]) -> NodeCurves:
    """What ``told`` has made of it."""
    steps = {name: told[name] for name in ("first_bytes", "steps_per_octave")}
    return NodeCurves(
        node,
        told["span_s"],
        told["arena_bytes"],
        told["memory_bytes"],
        told["disk_bytes"],
        [NamespaceCurve(**each, **steps) for each in told["namespaces"]],
    )


def _fault(reply: NodeReply) -> str:
    return reply.fault if reply.value is None else "it is of an older version"
