"""Namespaces: what they take and how they are hit, over all nodes.

Bytes are known of those with rules, and of all others together, which have no name. Lookups are
known of those that nodes have seen first: of all others they are in the sum without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOLD_MAX = 128  # by one node, of those whose lookups it tells apart
SIZES = ("memory_bytes", "pinned_bytes", "disk_bytes", "quota_bytes", "disk_quota_bytes")
LOOKUPS = ("hits", "misses", "read_bytes", "written_bytes")
Namespace = dict[str, Any]


def lookups_of(tally: Mapping[str, Any]) -> list[list[Any]]:
    """Of the native server's tally: name and LOOKUPS, those with most first, the rest as one."""
    rows = [
        [
            each["name"].decode("utf-8", "backslashreplace"),
            each["memory_hits"] + each["disk_hits"],
            sum(each["misses"].values()),
            each["read_bytes"],
            each["written_bytes"],
        ]
        for each in tally["namespaces"]
    ]
    rows.sort(key=lambda row: (not row[0], -sum(row[1:3]), -row[4]))
    told = [row for row in rows[:TOLD_MAX] if row[0]]
    rest = rows[len(told) :]
    return told + (
        [["", *(sum(column) for column in list(zip(*rest, strict=True))[1:])]] if rest else []
    )


def namespaces_of(
    reports: Iterable[Mapping[str, Any]], before: Sequence[Namespace] = ()
) -> list[Namespace]:
    """Of each the sums over its nodes, the largest first; ``before``: of the look before."""
    found: dict[str, Namespace] = {}
    for report in reports:
        for name, *sizes in report["namespaces"]:
            _add(found, name, SIZES, sizes, nodes=1)
        for name, *lookups in report["lookups"]:
            _add(found, name, LOOKUPS, lookups)
    _sum_others(found)
    earlier = {each["name"]: each for each in before}
    for name, space in found.items():
        space["hit_rate"] = _hit_rate(space, earlier.get(name))
    return sorted(found.values(), key=_order)


def _add(
    found: dict[str, Namespace],
    name: str,
    kinds: Sequence[str],
    counts: Sequence[int],
    *,
    nodes: int = 0,
) -> None:
    space = found.setdefault(name, {"name": name, "nodes": 0} | dict.fromkeys(SIZES + LOOKUPS))
    space["nodes"] += nodes
    for kind, count in zip(kinds, counts, strict=False):
        space[kind] = (space[kind] or 0) + count


def _sum_others(found: dict[str, Namespace]) -> None:
    """Lookups of all without rules belong to the sum without a name, as their bytes do."""
    if "" not in found:
        return
    for name, space in list(found.items()):
        if name and space["memory_bytes"] is None:
            _add(found, "", LOOKUPS, [space[kind] or 0 for kind in LOOKUPS])


def _hit_rate(now: Namespace, before: Namespace | None) -> float | None:
    if not before or now["hits"] is None or before["hits"] is None:
        return None
    hits, misses = now["hits"] - before["hits"], now["misses"] - before["misses"]
    if min(hits, misses) < 0 or hits + misses == 0:
        return None  # a node has started again or is silent, or nothing was asked for
    return hits / (hits + misses)


def _order(space: Namespace) -> tuple[int, int, str]:
    size = (space["memory_bytes"] or 0) + (space["disk_bytes"] or 0)
    return -size, -(space["read_bytes"] or 0), space["name"]
