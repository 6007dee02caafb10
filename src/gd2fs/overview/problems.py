"""Problems: what of an overview somebody should look at, each in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

PROBLEMS_MAX = 100  # that are told; the last one says how many more there are
Node = Mapping[str, Any]
Problem = dict[str, Any]


def problems_of(nodes: Sequence[Node]) -> list[Problem]:
    """The grave ones first. What several nodes have in common is one.

    Returns:
        ``severity``: ``bad``, or ``warn``; ``text``; ``nodes``: which have it, none where it is
        about the cluster.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        for problem in _of_node(node):
            found.setdefault(problem, []).append(node["name"])
    for problem in _of_versions(nodes):
        found[problem] = []
    told = [
        {"severity": severity, "text": text, "nodes": names}
        for (severity, text), names in found.items()
    ]
    told.sort(key=lambda each: (each["severity"] != "bad", -len(each["nodes"])))
    if len(told) > PROBLEMS_MAX:
        rest = f"{len(told) - PROBLEMS_MAX} more problems are not listed"
        told[PROBLEMS_MAX:] = [{"severity": "warn", "text": rest, "nodes": []}]
    return told


def _of_node(node: Node) -> Iterator[tuple[str, str]]:
    counts = node["counts"]
    if node["state"] == "gone":
        return
    if counts is None:
        yield "bad", f"no report: {node['fault']}"
        return
    if node["not_ready"] and node["state"] != "draining":
        yield "bad", f"not ready: {node['not_ready']}"
    if counts["nvme_failed_places"]:
        yield "bad", f"{counts['nvme_failed_places']} of its disks are not written to"
    if counts["is_losing"]:
        yield "bad", "evicted pieces go unwritten: its disks are too slow, or fail"
    if counts["record_log_faults"]:
        yield "bad", "writes to its log of records have failed"
    if counts["corrupt_pieces"]:
        yield "warn", f"{counts['corrupt_pieces']} stored copies dropped for a wrong checksum"


def _of_versions(nodes: Sequence[Node]) -> Iterator[tuple[str, str]]:
    versions = sorted({each["version"] for each in nodes if each["version"]})
    if len(versions) > 1:
        yield "warn", f"nodes are of several versions: {', '.join(versions)}"
