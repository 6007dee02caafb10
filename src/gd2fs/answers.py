"""Answers: what calls return. Plain values, made once, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Name = TypeVar("Name", str, bytes)

FAULTS = {9: "it is of an older version", 12: "nobody there knows its settings"}  # by status
NODE_STATES = ("joining", "active", "draining", "gone")  # by their number on the wire


@dataclass(frozen=True, slots=True)
class FileStat:
    """What a file is now.

    Attributes:
        size: Bytes, holes included.
        chunk_bytes: The file is cut at multiples of this.
        ttl_s: Seconds from creation to its end; 0 is none.
        generation: Differs between any two files that ever had this path.
        sequence: Grows with every change of this generation.
        replicas: Copies of its bytes that there shall be; 0: as many as its namespace has.
    """

    size: int
    chunk_bytes: int
    ttl_s: int
    generation: int
    sequence: int
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class NodeReply:
    """What one node said for itself.

    Attributes:
        node: Its name.
        value: What it said; None when it said nothing.
        fault: Why it said nothing; empty when it did.
    """

    node: str
    value: dict[str, Any] | None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """How one node is. A node that did not answer is ``gone``, with zeros."""

    name: str
    boot: int
    epoch: int
    state: str  # "joining", "active", "draining" or "gone"
    rung: str  # of the arena: "hugetlb", "memfd", "thp", "plain" or "file"
    zero_copy: str  # "on", or "off: " and why
    arena_bytes: int
    arena_free_bytes: int
    is_sealed: bool = False  # readers on its host may map its arena
    transport: str = ""  # how this client reaches it: "shm", "rdma", "unix" or "tcp"
    fault: str = ""  # why it is "gone"; empty for others
    moves_left: int = 0  # pieces that it has yet to look at, or to hand over
    moves_left_bytes: int = 0
    records_left: int = 0  # records of files likewise
    nvme_bytes: int = 0  # that it may take of its disks; 0: it has no such tier
    nvme_live_bytes: int = 0  # of what can be read there
    nvme_cold_bytes: int = 0  # of these, what is not in memory
    nvme_fault: str = ""  # what is wrong with its disks; empty: nothing

    @property
    def arena_mode(self) -> str:
        """``sealed``: can be shared; ``kept``: a file that outlives the node; else ``private``."""
        if self.is_sealed:
            return "sealed"
        return "kept" if self.rung == "file" else "private"


def node_status(name: str, boot: int, epoch: int, state: int, *rest: Any) -> NodeStatus:
    """Make it of what the native client says."""
    return NodeStatus(name, boot, epoch, NODE_STATES[state], *rest)


@dataclass(frozen=True, slots=True)
class MapNode:
    """One node as the map has it. ``weight``: its share, in relation to others."""

    name: str
    addresses: tuple[str, ...]
    boot: int
    weight: int
    state: str  # "joining", "active", "draining" or "gone"


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The map of a cluster.

    Attributes:
        epoch: Grows with every change.
        provider: Who says who belongs to it: "static", "etcd" or "kubernetes".
        replicas: Copies of what lies in a namespace that ``namespaces`` does not name.
        namespaces: Namespaces with a number of their own.
        lease_s: A node that is silent for so long is taken for gone; 0: none ever is.
        nodes: In the order of their names.
    """

    epoch: int
    provider: str
    replicas: int
    namespaces: dict[str, int]
    lease_s: float
    nodes: tuple[MapNode, ...]


def cluster_status(native: dict[str, Any]) -> ClusterStatus:
    """Make it of what the native client says."""
    return ClusterStatus(
        epoch=native["epoch"],
        provider=native["provider"],
        replicas=native["replicas"],
        namespaces={
            name.decode("utf-8", "surrogateescape"): n for name, n in native["namespaces"].items()
        },
        lease_s=native["lease_ms"] / 1000,
        nodes=tuple(sorted((_map_node(*each) for each in native["nodes"]), key=lambda n: n.name)),
    )


def _map_node(listed: str, boot: int, weight: int, state: int, _left_by: int) -> MapNode:
    name, _, where = listed.partition("=")
    return MapNode(name, tuple(where.split("+")), boot, weight, NODE_STATES[state])


@dataclass(frozen=True, slots=True)
class Presence:
    """Which pages are there now, in the order of the keys asked for.

    Attributes:
        present: False: it is not there, or the node that should have it does not answer.
        is_partial: The latter is so for some of them.
    """

    present: list[bool]
    is_partial: bool = False

    @property
    def leading(self) -> int:
        """How many keys from the first on are there without a gap."""
        return _leading(self.present)


class Stored(list[bool]):
    """For each key that was put whether its page is there now.

    Attributes:
        copies: On how many nodes each of them is: fewer than their namespace has copies when no
            more nodes could be reached, or had room.
    """

    def __init__(self, stored: Iterable[bool], copies: Sequence[int]) -> None:
        super().__init__(stored)
        self.copies = list(copies)


@dataclass(frozen=True, slots=True)
class ClientCounts:
    """What a client has done since it began.

    Attributes:
        hedged: Reads that were asked of a second node, as the first was late.
        hedges_won: And answered by it.
        bounced_in_bytes: Copied to memory of GPUs, by way of the host's.
        bounced_out_bytes: Copied from there.
        bounce_faults: Requests that failed for a copy, or for what cards wrote and a GPU did not
            see.
        direct_in_bytes: Straight to memory of GPUs.
        direct_out_bytes: Straight from there.
        checked_bytes: Of those that came in: copied out again, and verified.
        direct_refused: Requests that were to go straight, and bounced.
    """

    hedged: int
    hedges_won: int
    bounced_in_bytes: int = 0
    bounced_out_bytes: int = 0
    bounce_faults: int = 0
    direct_in_bytes: int = 0
    direct_out_bytes: int = 0
    checked_bytes: int = 0
    direct_refused: int = 0


@dataclass(frozen=True, slots=True)
class PageResult:
    """What arrived, in the order of the keys asked for.

    Attributes:
        sizes: Bytes written to the front of each buffer; None is a miss, and that buffer's
            content means nothing.
        is_partial: Some are a miss as the node that should have them does not answer.
    """

    sizes: list[int | None]
    is_partial: bool = False

    @property
    def leading(self) -> int:
        """How many keys from the first on were copied without a gap."""
        return _leading([size is not None for size in self.sizes])


@dataclass(frozen=True, slots=True)
class Listing(Generic[Name]):
    """Some names in byte order, with their sizes.

    Attributes:
        entries: ``(name, bytes)``: paths of files as str, keys of pages as bytes.
        next: Pass it as ``after`` to go on; None at the end.
        is_partial: Some nodes did not answer, so names may be missing.
    """

    entries: list[tuple[Name, int]]
    next: Name | None
    is_partial: bool


def node_reply(node: str, status: int, text: bytes) -> NodeReply:
    """Make it of what the native client says."""
    try:
        value = json.loads(text) if status == 0 else None
    except ValueError:
        return NodeReply(node, None, "its answer makes no sense; is it of another version?")
    return NodeReply(node, value, "" if status == 0 else FAULTS.get(status, "it does not answer"))


def _leading(facts: list[bool]) -> int:
    return facts.index(False) if False in facts else len(facts)
