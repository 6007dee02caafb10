"""Collector: asks a node for its counts whenever it is scraped, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric

from gd2fs import __version__
from gd2fs.membership.provider import Provider
from gd2fs.membership.state import NodeState
from gd2fs.metrics import details
from gd2fs.metrics.families import FAMILIES, WITH_NVME

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ARENA_STATES = ("free", "filling", "loading", "staged", "live", "zombie", "record")
NVME_ERRORS = ("read", "write", "sync", "full")
REFUSALS = (  # as core/refusal.h has them
    "bad_hello",
    "no_token",
    "unknown_token",
    "wrong_proof",
    "timeout",
    "too_many",
    "rate",
    "left",
    "tls_required",
    "tls_handshake",
    "tls_certificate",
)

Counts = Mapping[str, int]
Space = tuple[bytes, int, int, int, int, int]  # as the native server says


class NodeCollector:
    """Asks the node for its counts whenever it is scraped.

    Args:
        counts, tally, spaces: As the native server answers them.
        labels: Of the node: ``name``, ``cluster``, ``rung``.
        why_not_ready: Empty while it serves.
        admin_refused: What its admin side has turned away, by reason.
        spread: How its memory lies at NUMA nodes.
    """

    def __init__(
        self,
        counts: Callable[[], Counts],
        labels: Mapping[str, str],
        provider: Provider,
        spaces: Callable[[], Sequence[Space]] = list,
        *,
        tally: Callable[[], Mapping[str, Any]],
        why_not_ready: Callable[[], str],
        admin_refused: Callable[[], Counts] = dict,
        spread: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._counts = counts
        self._tally = tally
        self._spaces = spaces
        self._labels = dict(labels)
        self._provider = provider
        self._why_not_ready = why_not_ready
        self._admin_refused = admin_refused
        self._spread = spread

    def collect(self) -> Iterable[Metric]:
        """Yield every metric of the node."""
        counts = self._counts()
        yield self._node()
        yield from _membership(self._provider, not self._why_not_ready())
        yield from _plain(counts)
        yield from _sorted_counts(counts)
        yield from _namespaces(self._spaces())
        yield from _numa(self._spread())
        yield from details.families(self._tally())
        refused = {(reason,): count for reason, count in self._admin_refused().items()}
        yield details.labelled("gd2fs_admin_refused", refused)
        yield from ProcessCollector(registry=None).collect()

    def _node(self) -> Metric:
        node = FAMILIES["gd2fs_node"].made()
        node.add_metric([], self._labels | {"version": __version__})
        return node


def render(collector: Any) -> bytes:
    """Return the page of a ``NodeCollector``, or of what one may see of it, as Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def _plain(counts: Counts) -> Iterable[Metric]:
    """What has no labels."""
    for family in FAMILIES.values():
        if family.key and (counts["nvme_bytes"] or family.when != WITH_NVME):
            made = family.made()
            made.add_metric([], counts[family.key])
            yield made


def _sorted_counts(counts: Counts) -> Iterable[Metric]:
    yield details.labelled(
        "gd2fs_arena_bytes", {(state,): counts[f"{state}_bytes"] for state in ARENA_STATES}
    )
    refused = {(reason,): counts[f"refused_{reason}"] for reason in REFUSALS}
    yield details.labelled("gd2fs_refused_streams", refused)
    results = {"hit": counts["hits"], "miss": counts["misses"]}
    yield details.labelled("gd2fs_lookups", {(word,): count for word, count in results.items()})
    if counts["nvme_bytes"]:
        errors = {(kind,): counts[f"nvme_{kind}_errors"] for kind in NVME_ERRORS}
        yield details.labelled("gd2fs_nvme_errors", errors)


def _numa(spread: Mapping[str, Any]) -> Iterable[Metric]:
    """Without series where memory lies at one node."""
    shares = spread.get("bytes", {})
    yield details.labelled(
        "gd2fs_numa_arena_bytes", {(str(node),): size for node, size in shares.items()}
    )
    taken = {(where,): spread[f"{where}_bytes"] for where in ("near", "far") if shares}
    yield details.labelled("gd2fs_numa_taken_bytes", taken)


def _membership(provider: Provider, is_ready: bool) -> Iterable[Metric]:
    now = provider.state()
    yield details.labelled("gd2fs_ready", {(): float(is_ready)})
    yield details.labelled("gd2fs_cluster_nodes", {(): provider.nodes()})
    states = {(each.name.lower(),): float(each == now) for each in NodeState}
    yield details.labelled("gd2fs_state", states)
    left_s = provider.lease_left_s()
    if left_s is not None:
        yield details.labelled("gd2fs_lease_left_seconds", {(): left_s})


def _namespaces(spaces: Sequence[Space]) -> Iterable[Metric]:
    """Of each namespace with rules of its own; without a name: of all others."""
    taken: dict[tuple[str, ...], float] = {}
    quotas: dict[tuple[str, ...], float] = {}
    over: dict[tuple[str, ...], float] = {}
    for space in spaces:
        name = space[0].decode("utf-8", "replace")
        for kind, count in zip(("memory", "pinned", "disk"), space[1:4], strict=True):
            taken[name, kind] = count
        for kind, quota in (("memory", space[4]), ("disk", space[5])):
            if quota:
                quotas[name, kind] = quota
        if space[4]:
            over[name,] = max(space[2] - space[4], 0)
    yield details.labelled("gd2fs_namespace_bytes", taken)
    yield details.labelled("gd2fs_namespace_quota_bytes", quotas)
    yield details.labelled("gd2fs_namespace_pinned_over_quota_bytes", over)
