"""Answer: hit rates as counted, by the curves at today's size, and at the size that is asked about.

Every node answers by its own curve, which knows its share of the keys; the sums are over looks.
More nodes are more memory for the same keys. Memory and disk are taken for one LRU cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gd2fs.config.node import MEMORY_BYTES_MIN
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import format_bytes
from gd2fs.whatif.curves import NamespaceCurve, NodeCurves
from gd2fs.whatif.question import Question

FOLLOWED_MIN = 200  # looks; fewer say nothing
FACTORS = tuple(2 ** (at / 2) for at in range(-6, 9))  # of today's memory, for the picture


@dataclass(frozen=True, slots=True)
class Row:
    """Of one namespace, or of all together.

    Attributes:
        name: Of the namespace.
        quota_bytes: Its own memory on all nodes; 0: it shares theirs.
        looks_per_s: Pages and pieces asked for.
        counted: The share of them that was found.
        now: What the curves say that is found with today's memory and disk; None: too little was
            followed to say.
        then: The same with what is asked about.
        more_bytes_per_s: That would be found more than the curves say is found now; below 0: so
            many fewer.
        points: The same for memory of so many times today's: (factor, share).
    """

    name: str
    quota_bytes: int
    looks_per_s: float
    counted: float
    now: float | None
    then: float | None
    more_bytes_per_s: float | None
    points: Sequence[tuple[float, float]]

    @property
    def gain(self) -> float | None:
        """Of all looks, the share that would be found besides."""
        return None if self.now is None or self.then is None else self.then - self.now


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a cluster.

    Attributes:
        nodes: That have told their curves.
        span_s: Of what they were asked, the longest.
        memory_bytes, disk_bytes: Of all nodes now.
        then_nodes, then_memory_bytes, then_disk_bytes: With what is asked about.
        total: Of all namespaces together.
        namespaces: Of each, those with most looks first.
        notes: What somebody should know who reads this, in words.
    """

    nodes: int
    span_s: float
    memory_bytes: int
    disk_bytes: int
    then_nodes: int
    then_memory_bytes: int
    then_disk_bytes: int
    total: Row
    namespaces: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """What one node says of a namespace."""

    curve: NamespaceCurve
    node: NodeCurves

    def share(self, memory: float, disk: float) -> float:
        """With so many times the memory, and so many bytes of disk."""
        own = self.curve.quota_bytes or self.node.memory_bytes
        return self.curve.share_within(own * memory + disk)


def answer_of(nodes: Sequence[NodeCurves], question: Question) -> Answer:
    """Work it out.

    Raises:
        InvalidRequest: No node would be left, or more than a cluster has, or one with less memory
            than a node needs.
    """
    spread = question.spread(len(nodes))
    _check_memory(nodes, question)
    parts: dict[str, list[_Part]] = {}
    for node in nodes:
        for curve in node.namespaces:
            parts.setdefault(curve.name, []).append(_Part(curve, node))
    rows = [_row(name, each, question, spread) for name, each in parts.items()]
    rows.sort(key=lambda row: -row.looks_per_s)
    count = len(nodes) + question.nodes
    then = [question.dram.of(node.arena_bytes) for node in nodes]
    disks = [question.nvme.of(node.disk_bytes) for node in nodes]
    return Answer(
        nodes=len(nodes),
        span_s=max((node.span_s for node in nodes), default=0.0),
        memory_bytes=sum(node.arena_bytes for node in nodes),
        disk_bytes=sum(node.disk_bytes for node in nodes),
        then_nodes=count,
        then_memory_bytes=round(sum(then) * spread),
        then_disk_bytes=round(sum(disks) * spread),
        total=_row("", [part for each in parts.values() for part in each], question, spread),
        namespaces=rows,
        notes=_notes(nodes, question),
    )


def _check_memory(nodes: Sequence[NodeCurves], question: Question) -> None:
    for node in nodes:
        memory = question.dram.of(node.arena_bytes)
        if memory < min(node.arena_bytes, MEMORY_BYTES_MIN):
            raise InvalidRequest(
                f"{node.node} would have {format_bytes(round(memory))} of memory",
                hint=f"{format_bytes(MEMORY_BYTES_MIN)} is the least that a node needs",
            )


def _notes(nodes: Sequence[NodeCurves], question: Question) -> list[str]:
    if question.nvme.bytes is not None or question.nvme.times == 1:
        return []
    bare = [node.node for node in nodes if not node.disk_bytes]
    if not bare:
        return []
    whose = "no node has" if len(bare) == len(nodes) else f"{', '.join(bare)} without"
    times = f"{question.nvme.times:g}x"
    return [
        f"{whose} a disk, and {times} of none is none: that changes nothing there; "
        "say how many bytes, as in `--nvme 4TiB`"
    ]


def _row(name: str, parts: Sequence[_Part], question: Question, spread: float) -> Row:
    looks = sum(part.curve.looks for part in parts)
    found = sum(part.curve.found for part in parts)
    followed = sum(part.curve.followed for part in parts)
    now = then = more = None
    points: list[tuple[float, float]] = []
    if followed >= FOLLOWED_MIN:
        now = _mean(parts, (part.share(1, part.node.disk_bytes) for part in parts))
        shares = [_then(part, question, spread) for part in parts]
        then = _mean(parts, shares)
        more = sum(
            (share - part.share(1, part.node.disk_bytes))
            * part.curve.looks
            / max(part.node.span_s, 1e-9)
            * part.curve.piece_bytes
            for part, share in zip(parts, shares, strict=True)
        )
        points = [
            (factor, _mean(parts, (part.share(factor, part.node.disk_bytes) for part in parts)))
            for factor in FACTORS
        ]
    return Row(
        name=name,
        quota_bytes=sum(part.curve.quota_bytes for part in parts),
        looks_per_s=sum(part.curve.looks / max(part.node.span_s, 1e-9) for part in parts),
        counted=found / looks if looks else 0.0,
        now=now,
        then=then,
        more_bytes_per_s=more,
        points=points,
    )


def _then(part: _Part, question: Question, spread: float) -> float:
    memory = question.dram.of(part.node.arena_bytes) / part.node.arena_bytes
    return part.share(memory * spread, question.nvme.of(part.node.disk_bytes) * spread)


def _mean(parts: Sequence[_Part], shares: Iterable[float]) -> float:
    """Weighed by looks."""
    looks = sum(part.curve.looks for part in parts)
    weighed = sum(part.curve.looks * share for part, share in zip(parts, shares, strict=True))
    return weighed / looks if looks else 0.0
