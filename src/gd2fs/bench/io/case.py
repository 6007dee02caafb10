"""Case: one thing that is measured, the ceiling it is held against, and what it should reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

OPS = ("read", "write", "view", "get", "put", "exists")
BATCH_OPS = ("get", "put", "exists")
TRANSPORTS = ("tcp", "unix", "shm")  # of a run that chooses none
RDMA = "rdma"  # over whichever of UCX's transports there are
EXISTS_KEYS = 1000
SMALL_BYTES = 64 * KIB  # batches of smaller pages are held against the bare loop
DEPTH = 4  # batches of small pages in flight
COPY_THREADS = 2
CEILINGS = ("copy", "copy_nontemporal", "tcp_vmsplice", "tcp_send", "unix_vmsplice")


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the run.

    Attributes:
        op: One of ``OPS``.
        transport: One of ``TRANSPORTS``, or ``RDMA``, whose ceilings are those of TCP.
        bytes: Of one item; of ``exists``, 0.
        count: Items of one call.
        streams: Connections to each node.
        verify: The client checks what it reads, and sums what it writes.
        nodes, clients: Processes of each kind.
        depth: Calls in flight of each client.
    """

    op: str
    transport: str = "tcp"
    bytes: int = 64 * MIB
    count: int = 1
    streams: int = 2
    verify: bool = True
    nodes: int = 1
    clients: int = 1
    depth: int = 1

    @property
    def call_bytes(self) -> int:
        """What one call moves."""
        return self.bytes * self.count

    @property
    def is_batch(self) -> bool:
        return self.op in BATCH_OPS

    @property
    def is_small_batch(self) -> bool:
        return self.op == "get" and self.bytes < SMALL_BYTES

    def ceiling(self, *, can_vmsplice: bool = True) -> str:
        """What bounds it: a name of ``CEILINGS``, ``bare_get``, ``bare_exists`` or a send."""
        if self.op == "exists":
            return "bare_exists"
        if self.is_small_batch:
            return "bare_get"
        if self.op in ("write", "put"):
            return "tcp_send" if self.transport in ("tcp", RDMA) else "unix_send"
        if self.transport == "shm":
            return "copy_nontemporal"
        stream = "tcp" if self.transport == RDMA else self.transport
        return f"{stream}_{'vmsplice' if can_vmsplice else 'send'}"

    def target(self) -> Target | None:
        """What DESIGN asks of it; None where it asks nothing."""
        if self.nodes > 1 or self.clients > 1:
            return None
        if self.op == "exists":
            return Target("ms", 0.3 if self.count <= EXISTS_KEYS else 0.0003 * self.count)
        if self.op == "view":
            return Target("ms", 0.2)
        if self.op == "get":
            if self.is_small_batch:
                return Target("ratio", 0.8) if self.depth > 1 else None
            return Target("of_one", 0.8) if self.bytes < MIB else None
        if self.bytes < 64 * MIB or self.op == "put":
            return None
        return _TARGETS.get((self.op, self.transport, self.verify))

    def wants_whole(self) -> bool:
        """Whether the same bytes as one object are measured beside it."""
        return self.op == "get" and not self.is_small_batch

    def label(self) -> str:
        """What a row of the table says."""
        what = f"{self.op} {size_text(self.bytes)}" if self.bytes else self.op
        if self.is_batch:
            items = f"{self.count:,}"
            each = f" x {size_text(self.bytes)}" if self.bytes else " keys"
            what = f"{self.op} {items}{each}"
        more = [] if self.op in ("view", "exists") or self.verify else ["unverified"]
        more += [f"{self.depth} in flight"] if self.depth > 1 else []
        more += [f"{self.nodes} nodes"] if self.nodes > 1 else []
        more += [f"{self.clients} clients"] if self.clients > 1 else []
        return ", ".join([f"{what} {self.transport}/{self.streams}", *more])


@dataclass(frozen=True, slots=True)
class Target:
    """What a case should reach.

    Attributes:
        kind: ``ratio`` to the ceiling, ``of_one`` the same bytes as one object: at least.
            ``ms`` of the median: at most.
        value: The bound.
    """

    kind: str
    value: float

    def text(self) -> str:
        return f"≤ {self.value * 1000:.0f} µs" if self.kind == "ms" else f"≥ {self.value:.0%}"

    def is_met(self, measures: Mapping[str, Any]) -> bool:
        """``measures``: a row's ``ratio``, ``ratio_one_object`` and ``ms_p50``."""
        if self.kind == "ms":
            return measures["ms_p50"] <= self.value
        ratio = measures["ratio" if self.kind == "ratio" else "ratio_one_object"]
        return ratio is not None and ratio >= self.value


_TARGETS = {
    ("read", "tcp", True): Target("ratio", 0.8),
    ("read", "tcp", False): Target("ratio", 0.9),
    ("read", "shm", True): Target("ratio", 0.7),
    ("read", "shm", False): Target("ratio", 0.9),
    ("write", "tcp", True): Target("ratio", 0.8),
    ("write", "tcp", False): Target("ratio", 0.95),
}


def size_text(size: int) -> str:
    """``64 MiB``; whole numbers of the largest unit."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"
