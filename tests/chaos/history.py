"""History: what the clients saw and what was wrong meanwhile, of one run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.operation import KILLED, NEVER_NS, Record, take_answer
from gd2fs._core import placement_order

S = 1_000_000_000  # ns
ETCD = "etcd"
NAMESPACE = "chaos"  # of pages
LEASE_FAULTS = ("pause", "link_down", "loss")  # that can keep a node from the control plane
ALL_NODES = {f"n{index}" for index in range(64)}


@dataclass(frozen=True, slots=True)
class Outage:
    """A fault as it was: from before its first effect to after its last one."""

    kind: str
    target: str
    start_ns: int
    end_ns: int = NEVER_NS
    other: str = ""

    @property
    def nodes(self) -> set[str]:
        """Whose lease may end by it; everybody's when it is the control plane's."""
        return {name for name in (self.target, self.other) if name.startswith("n")} or ALL_NODES

    @property
    def loses_memory(self) -> bool:
        return self.kind == "kill" and self.target != ETCD

    def loses_records(self, lease_ns: int) -> bool:
        """Whether a node forgets its files by it. ``lease_ns``: 0 where there are no leases."""
        is_of_lease = self.kind in LEASE_FAULTS or ETCD in (self.target, self.other)
        is_long = self.end_ns - self.start_ns > lease_ns // 2
        return self.loses_memory or (lease_ns > 0 and is_of_lease and is_long)

    @property
    def ends_client(self) -> bool:
        return self.kind == "client_kill"


@dataclass
class History:
    """The records of all clients and the outages of a run.

    Attributes:
        replicas: Copies of acknowledged data.
        is_roomy: Nothing was ever evicted, so what was acknowledged stays.
        settle_ns: After an outage, until all is expected to be as before.
        chunk_bytes: Of every file.
        lease_ns: Of a node, 0 without leases. Cut off for longer than that it forgets its files.
        nodes: Of a list, from whose names the places follow; empty: the places are not known, and
            every node counts for all that was written.
        is_kept: A node that is killed finds its memory again; its records too, without leases.
    """

    records: list[Record] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    replicas: int = 1
    is_roomy: bool = True
    settle_ns: int = 2 * S
    chunk_bytes: int = 64 << 10
    lease_ns: int = 0
    nodes: list[str] = field(default_factory=list)
    is_kept: bool = False

    def is_calm(self, start_ns: int, end_ns: int) -> bool:
        """Whether nothing was wrong in that time, nor just before."""
        return not any(
            outage.start_ns < end_ns and outage.end_ns + self.settle_ns > start_ns
            for outage in self.outages
            if not outage.ends_client
        )

    def lost(self, start_ns: int, end_ns: int, *, of_files: bool) -> set[str]:
        """Which nodes lost what they had in that time, pages or records of files."""
        lost: set[str] = set()
        for outage in self.outages:
            if outage.start_ns > end_ns or outage.end_ns < start_ns:
                continue
            if outage.loses_memory and self.is_kept and not (of_files and self.lease_ns):
                continue
            if outage.loses_memory:
                lost.add(outage.target)
            elif of_files and outage.loses_records(self.lease_ns):
                lost |= outage.nodes
        return lost

    def has_copies(self, change: Record, until_ns: int) -> bool:
        """Whether of all that ``change`` wrote a copy must be left, by the nodes lost since."""
        lost = self.lost(change.start_ns, until_ns, of_files=not change.is_of_page)
        if len(lost) < self.replicas:
            return True
        return bool(self.nodes) and all(
            set(self._owners(change, chunk)) - lost for chunk in self._chunks(change)
        )

    def _owners(self, change: Record, chunk: int) -> list[str]:
        name = f"{NAMESPACE}\0{change.name}" if change.is_of_page else change.name
        weights = [100] * len(self.nodes)
        order = placement_order(self.nodes, weights, name.encode(), chunk, self.replicas)
        return [self.nodes[index] for index in order]

    def _chunks(self, change: Record) -> Iterable[int]:
        """The chunks of a change, and the first one, where the record is."""
        begin = change.offset if change.value is None else change.value
        last = max(begin + change.length - 1, begin) // self.chunk_bytes
        return {0} if change.is_of_page else {0, *range(begin // self.chunk_bytes, last + 1)}

    def is_safe(self, change: Record, until_ns: int) -> bool:
        """Whether what ``change`` wrote must still be there: acknowledged while nothing was wrong,
        and no more nodes were lost since than there are further copies."""
        return (
            self.is_roomy
            and change.is_acknowledged
            and self.is_calm(change.start_ns, change.end_ns)
            and self.has_copies(change, until_ns)
        )


def read_log(path: Path, ended_ns: int = NEVER_NS) -> list[Record]:
    """The records of one worker. ``ended_ns``: when it was killed, if it was: then its calls ended.

    A last line that was cut off by the kill is left out.
    """
    records: dict[int, Record] = {}
    for line in _whole_lines(path):
        what, entries = json.loads(line)
        for entry in entries:
            if what == "begin":
                records[entry["number"]] = Record(**entry)
            else:
                take_answer(records[entry[0]], entry[1:])
    for record in records.values():
        if record.end_ns > ended_ns:
            record.end_ns, record.outcome = ended_ns, KILLED
    return list(records.values())


def _whole_lines(path: Path) -> Iterable[str]:
    if not path.exists():
        return []
    return (line for line in path.read_text(encoding="utf-8").split("\n")[:-1])
