"""Overview: a whole cluster at one moment, put together from what its nodes say of themselves.

Plain values that JSON can hold; docs/guides/dashboard.md lists them. Rates are of the time between
two looks: a node that has started in between has none.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from gd2fs.answers import ClusterStatus, MapNode, NodeReply
from gd2fs.client import Client
from gd2fs.overview.latency import Buckets, grown, quantiles, summed
from gd2fs.overview.namespaces import namespaces_of
from gd2fs.overview.problems import problems_of
from gd2fs.overview.report import COUNTS

ASK_S = 1.0  # a node that is silent for so long is shown as not answering
APART_MS_MIN = 100  # of two reports, else a rate says nothing
APART_MS_MAX = 30_000  # and here it is history
EVICTIONS_MAX = 100  # groups, of all nodes
BUCKETS = "buckets"  # of a node: how long things took since its start
Overview = dict[str, Any]

# Of the counts that only grow, and what they are called a second.
RATES = {
    "bytes_out": "read_bytes_per_s",
    "bytes_in": "written_bytes_per_s",
    "requests": "requests_per_s",
    "hits": "hits_per_s",
    "misses": "misses_per_s",
    "evicted_pieces": "evicted_pieces_per_s",
    "evicted_bytes": "evicted_bytes_per_s",
    "moved_bytes": "moved_bytes_per_s",
    "demoted_bytes": "demoted_bytes_per_s",
    "loaded_bytes": "loaded_bytes_per_s",
}


class ClusterWatch:
    """Looks at a cluster through ``client``, again and again. One look at a time."""

    def __init__(self, client: Client, *, seen_by: str = "") -> None:
        """``seen_by``: the node that looks; empty for a client."""
        self._client = client
        self._seen_by = seen_by
        self._before: Overview | None = None

    def look(self) -> Overview:
        """Ask every node for its report. Takes ``ASK_S`` at most, silent nodes or not.

        Raises:
            Unavailable: The cluster cannot be asked at all.
        """
        start_s = time.monotonic()
        replies = self._client.settings({"do": "report"}, timeout_s=ASK_S)
        now = overview_of(self._client.cluster(), replies, self._before)
        now |= {
            "cluster": self._client.config.cluster,
            "seen_by": self._seen_by,
            "at_ms": round(time.time() * 1e3),
            "took_ms": round((time.monotonic() - start_s) * 1e3, 1),
        }
        self._before = now
        return shown(now)


def overview_of(
    now: ClusterStatus, replies: Sequence[NodeReply], before: Overview | None = None
) -> Overview:
    """Put the answers of the map's nodes together.

    ``before``: the look that rates are since, as this has made it; ``shown`` is for others.
    """
    told = {each.node: each for each in replies}
    earlier = {each["name"]: each for each in before["nodes"]} if before else {}
    nodes = [_node(each, told.get(each.name), earlier.get(each.name)) for each in now.nodes]
    latency = _latencies(nodes, earlier)
    reports = {each.node: each.value for each in replies if each.value and _is_report(each)}
    return {
        "epoch": now.epoch,
        "provider": now.provider,
        "lease_s": now.lease_s,
        "replicas": now.replicas,
        "total": total_of(nodes) | {"latency": latency},
        "nodes": nodes,
        "namespaces": namespaces_of(reports.values(), before["namespaces"] if before else ()),
        "evictions": evictions_of(reports),
        "problems": problems_of(nodes),
    }


def shown(now: Overview) -> Overview:
    """Without what only the next look needs."""
    return now | {"nodes": [{k: v for k, v in n.items() if k != BUCKETS} for n in now["nodes"]]}


def total_of(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums over all nodes that answer."""
    counted = [each["counts"] for each in nodes if each["counts"]]
    rated = [each["rates"] for each in nodes if each["rates"]]
    return {
        "nodes": sum(each["state"] != "gone" for each in nodes),
        "answering": sum(each["answers"] for each in nodes),
        "counts": {name: sum(each[name] for each in counted) for name in COUNTS},
        "rates": _summed(rated) if rated else None,
    }


def evictions_of(reports: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What nodes let go lately, the newest of all first; ``reports`` by the nodes' names."""
    found = [
        {"node": node, **each} for node, report in reports.items() for each in report["evictions"]
    ]
    return sorted(found, key=lambda each: -each["last_ms"])[:EVICTIONS_MAX]


def _node(
    listed: MapNode, reply: NodeReply | None, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    said = reply.value if reply and _is_report(reply) else None
    node = {
        "name": listed.name,
        "state": listed.state,
        "answers": said is not None,
        "fault": "" if said or listed.state == "gone" else _fault(reply),
        "addresses": list(listed.addresses),
        "weight": listed.weight,
        "boot": listed.boot,
    }
    for name in ("version", "rung", "up_ms", "epoch", "not_ready", "counts", BUCKETS):
        node[name] = said.get(name) if said else None
    node["rates"] = _rates(node, before) if said and before else None
    return node


def _latencies(
    nodes: Sequence[dict[str, Any]], earlier: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]] | None:
    """Give each node its quantiles; those of all together."""
    since: list[Buckets] = []
    for node in nodes:
        own = grown(node[BUCKETS], earlier[node["name"]][BUCKETS]) if node["rates"] else None
        node["latency"] = quantiles(own)
        if own:
            since.append(own)
    return quantiles(summed(since))


def _is_report(reply: NodeReply) -> bool:
    return reply.value is not None and "counts" in reply.value


def _fault(reply: NodeReply | None) -> str:
    if reply is None:
        return "there is no way to it"
    if reply.value is not None:
        return "it answers, but is of an older version"
    return reply.fault


def _rates(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float | None] | None:
    if not before["counts"] or before["boot"] != now["boot"]:
        return None
    apart_ms = now["up_ms"] - before["up_ms"]
    if not APART_MS_MIN <= apart_ms <= APART_MS_MAX:
        return None
    grown = {name: now["counts"][name] - before["counts"][name] for name in RATES}
    if min(grown.values()) < 0:
        return None  # it has started again, and says the same number of its start
    return _with_hit_rate({RATES[name]: n * 1e3 / apart_ms for name, n in grown.items()})


def _summed(rated: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    return _with_hit_rate({name: sum(each[name] for each in rated) for name in RATES.values()})


def _with_hit_rate(rates: dict[str, float]) -> dict[str, float | None]:
    lookups = rates["hits_per_s"] + rates["misses_per_s"]
    shares = {"hit_rate": rates["hits_per_s"] / lookups if lookups else None}
    return {name: round(value, 3) for name, value in rates.items()} | shares
