"""Leaks: after all clients have ended, a node holds nothing for anybody."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.lab import Lab
from chaos.violation import Violation

EMPTY_S = 20.0  # until all is let go that clients had
POLL_S = 0.1
EMPTY = (
    'gd2fs_arena_bytes{state="filling"}',
    'gd2fs_arena_bytes{state="loading"}',
    'gd2fs_arena_bytes{state="staged"}',
    'gd2fs_arena_bytes{state="zombie"}',
    "gd2fs_held_bytes",
    "gd2fs_viewed_bytes",
    "gd2fs_views",
)
LOST_OF_MEMORY = ("gd2fs_evicted_pieces_total",)
RDMA_BYTES = 'transport="rdma"'
LOST_OF_DISK = (
    "gd2fs_nvme_unwritten_pieces_total",
    "gd2fs_nvme_lost_pieces_total",
    "gd2fs_nvme_failed_loads_total",
)
DESCRIPTORS_MORE_MAX = 24  # streams between nodes, two each way, and some that are closing
MEMORY_MORE_BYTES_MAX = 48 << 20  # tables and buffers; the arena is not counted


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a node process has taken from its machine, the arena left out."""

    pid: int
    descriptors: int
    memory_bytes: int


def footprint_of(pid: int) -> Footprint:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))
    return Footprint(pid, len(os.listdir(f"/proc/{pid}/fd")), int(kib) << 10)


def find_leaks(lab: Lab, before: dict[str, Footprint]) -> Iterator[Violation]:
    """Violations of every node. ``before``: of the nodes when the load began."""
    end = time.monotonic() + EMPTY_S
    for name in lab.node_names():
        yield from _find_held(lab, name, end)
        node, first = lab.nodes[name], before[name]
        if not node.is_running:
            yield Violation("a node ended", f"{name}: {node.last_words()}")
        elif first.pid == node.pid:
            yield from _find_growth(name, first, footprint_of(node.pid))


def _find_held(lab: Lab, name: str, end: float) -> Iterator[Violation]:
    while lab.nodes[name].is_running:
        counts = lab.metrics_of(name)
        held = {key: counts[key] for key in EMPTY if counts[key]}
        parts = sum(value for key, value in counts.items() if key.startswith("gd2fs_arena_bytes{"))
        if not held and parts == counts["gd2fs_arena_size_bytes"]:
            return
        if time.monotonic() > end:
            text = f"{name} has {held}; {parts} of {counts['gd2fs_arena_size_bytes']} bytes counted"
            yield Violation("memory is held for nobody", text)
            return
        time.sleep(POLL_S)


def _find_growth(name: str, first: Footprint, last: Footprint) -> Iterator[Violation]:
    more = last.descriptors - first.descriptors
    if more > DESCRIPTORS_MORE_MAX:
        yield Violation("descriptors grow", f"{name} has {more} more")
    grown = last.memory_bytes - first.memory_bytes
    if grown > MEMORY_MORE_BYTES_MAX:
        yield Violation("memory grows", f"{name} has {grown >> 20} MiB more outside its arena")


def lost_pieces(lab: Lab) -> int:
    """How many pieces went for lack of room, on all nodes that run now: out of memory, or where
    there are disks, before they were there, or from there."""
    return _sum_of(lab, LOST_OF_DISK if lab.world.has_disk else LOST_OF_MEMORY)


def loaded_pieces(lab: Lab) -> int:
    """How many came from disk, of all nodes that run now."""
    return _sum_of(lab, ("gd2fs_nvme_loaded_pieces_total",)) if lab.world.has_disk else 0


def bytes_by_rdma(lab: Lab) -> int:
    """How many bytes went in and out by one-sided transfers, of all nodes that run now."""
    if not lab.world.rdma:
        return 0
    counts = [lab.metrics_of(name) for name in lab.node_names()]
    return sum(
        int(value)
        for each in counts
        for series, value in each.items()
        if series.startswith("gd2fs_transport_bytes") and RDMA_BYTES in series
    )


def _sum_of(lab: Lab, names: tuple[str, ...]) -> int:
    counts = [lab.metrics_of(name) for name in lab.node_names()]
    return sum(
        int(value)
        for each in counts
        for series, value in each.items()
        if series.partition("{")[0] in names
    )
