"""Families: every metric of a node, with its meaning. The reference is made of this table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    SummaryMetricFamily,
)

WITH_NVME = "with `--nvme`"
WITH_NUMA = "on machines of several NUMA nodes, but for `--numa off`"
WITH_LEASES = "with leases (`--etcd`, `--kubernetes`)"
KINDS = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
    "info": InfoMetricFamily,
}
SUFFIXES = {
    "gauge": ("",),
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
    "info": ("_info",),
}


@dataclass(frozen=True)
class Family:
    """One metric.

    Attributes:
        name: Without the suffixes that its kind adds on the page.
        text: What it counts. Units are in the name.
        kind: One of ``KINDS``.
        labels: That its series have.
        key: Of the native server's counts, for what has no labels.
        when: When it is on the page; empty: always.
    """

    name: str
    text: str
    kind: str = "gauge"
    labels: tuple[str, ...] = ()
    key: str = ""
    when: str = ""

    @property
    def series(self) -> tuple[str, ...]:
        """The names that it has on the page."""
        return tuple(self.name + suffix for suffix in SUFFIXES[self.kind])

    def made(self) -> Any:
        """An empty one: a ``Metric`` to which samples are added by ``add_metric``."""
        return KINDS[self.kind](self.name, self.text, labels=self.labels)


def _gauges(rows: Iterable[tuple[str, str, str]], when: str = "") -> tuple[Family, ...]:
    return tuple(Family(name, text, "gauge", key=key, when=when) for name, text, key in rows)


def _counters(rows: Iterable[tuple[str, str, str]], when: str = "") -> tuple[Family, ...]:
    return tuple(Family(name, text, "counter", key=key, when=when) for name, text, key in rows)


NODE = (
    Family("gd2fs_node", "The node", "info", ("name", "cluster", "rung", "version")),
    Family("gd2fs_ready", "1 while `/readyz` says that it serves"),
    Family("gd2fs_state", "1 for the node's state in the map", labels=("state",)),
    Family("gd2fs_cluster_nodes", "Nodes in the map in force"),
    Family(
        "gd2fs_lease_left_seconds",
        "Until then it answers for records of files without another keep-alive",
        when=WITH_LEASES,
    ),
    *_gauges(
        (
            ("gd2fs_map_epoch", "Epoch of the map in force", "epoch"),
            ("gd2fs_moves_left", "Pieces yet to be looked at, or to go elsewhere", "moves_left"),
            ("gd2fs_moves_left_bytes", "Their bytes", "moves_left_bytes"),
            (
                "gd2fs_file_records_left",
                "Records of files yet to go elsewhere",
                "records_left",
            ),
            (
                "gd2fs_settled",
                "1 when every piece is where the map in force says",
                "is_settled",
            ),
        )
    ),
    *_counters(
        (
            ("gd2fs_moved_pieces", "Copies brought to other nodes", "moved"),
            ("gd2fs_moved_bytes", "Their bytes", "moved_bytes"),
        )
    ),
)

MEMORY = (
    Family(
        "gd2fs_arena_bytes",
        "Where the arena's bytes are; the sum is its size",
        labels=("state",),
    ),
    *_gauges(
        (
            ("gd2fs_arena_size_bytes", "Memory of the arena", "arena_bytes"),
            (
                "gd2fs_arena_largest_free_bytes",
                "Length of the longest free run, to a sixteenth",
                "longest_free_bytes",
            ),
            ("gd2fs_arena_free_runs", "Separate free runs of the arena", "free_runs"),
            ("gd2fs_pages", "Pages that can be read", "pages"),
            ("gd2fs_pieces", "Pieces of files that can be read", "pieces"),
            ("gd2fs_file_records", "Records of files whose home this node is", "records"),
            (
                "gd2fs_record_log_bytes",
                "Of the log they are kept in; 0: none, or out of order",
                "record_log_bytes",
            ),
            ("gd2fs_views", "Views that readers look at", "views"),
            ("gd2fs_viewed_bytes", "Bytes kept in place for them", "view_bytes"),
            ("gd2fs_held_bytes", "Bytes on their way to readers by reference", "held_bytes"),
        )
    ),
    *_counters(
        (("gd2fs_record_log_faults", "Writes to the log that failed", "record_log_faults"),)
    ),
    Family(
        "gd2fs_numa_arena_bytes",
        "Memory of the arena at each NUMA node",
        labels=("numa_node",),
        when=WITH_NUMA,
    ),
    Family(
        "gd2fs_numa_taken_bytes",
        "Memory taken for what was written: at the NUMA node of its thread (near), or not (far)",
        "counter",
        ("where",),
        when=WITH_NUMA,
    ),
    Family(
        "gd2fs_evicted_pieces",
        "Pieces that went out of memory for lack of room: in the node, or under a quota",
        "counter",
        ("policy", "reason"),
    ),
    Family("gd2fs_evicted_bytes", "Their bytes of the arena", "counter", ("policy", "reason")),
    Family(
        "gd2fs_departed_pieces",
        "Pieces that are not here any more, neither in memory nor on disk",
        "counter",
        ("reason",),
    ),
    Family("gd2fs_departed_bytes", "Their bytes", "counter", ("reason",)),
    *_counters(
        (
            (
                "gd2fs_expired_pieces",
                "Pieces that went at the end of their time to live",
                "expired_pieces",
            ),
        )
    ),
)

TRAFFIC = (
    *_gauges(
        (
            ("gd2fs_connections", "Open streams", "connections"),
            (
                "gd2fs_strangers",
                "Of these, streams that have not proven themselves yet",
                "strangers",
            ),
            (
                "gd2fs_tls_expires_seconds",
                "When the certificate of TLS ends, since 1970; 0: there is none",
                "tls_expires_s",
            ),
            (
                "gd2fs_tls_stale",
                "1 while its files of TLS are no use, and the former ones stay in force",
                "tls_is_stale",
            ),
        )
    ),
    Family(
        "gd2fs_refused_streams",
        "Streams that never came to ask anything",
        "counter",
        ("reason",),
    ),
    *_counters(
        (
            ("gd2fs_connections_accepted", "Streams that were opened", "accepted"),
            ("gd2fs_connections_refused", "Streams that were refused", "refused"),
            ("gd2fs_protocol_faults", "Streams closed for a broken frame", "protocol_faults"),
            ("gd2fs_tls_reloads", "Changed files of TLS that were taken", "tls_reloads"),
            (
                "gd2fs_tls_reload_faults",
                "Changed files of TLS that were no use: the former ones stay",
                "tls_reload_faults",
            ),
            ("gd2fs_requests", "Requests that came in", "requests"),
            (
                "gd2fs_denied_requests",
                "Of these, what was beyond the rights of their stream",
                "denied",
            ),
        )
    ),
    Family(
        "gd2fs_request_seconds",
        "From a request's frame until the kernel has the end of its answer",
        "histogram",
        ("op", "transport"),
    ),
    Family("gd2fs_lookups", "Pages and pieces that were to be read", "counter", ("result",)),
    *_counters(
        (
            ("gd2fs_received_bytes", "Bytes of cache that came in", "bytes_in"),
            ("gd2fs_sent_bytes", "Bytes of cache that went out", "bytes_out"),
            (
                "gd2fs_spliced_bytes",
                "Of the bytes sent: left the arena by reference",
                "bytes_spliced",
            ),
            (
                "gd2fs_leased_bytes",
                "Of the bytes sent: copied by their readers over shm",
                "bytes_leased",
            ),
            ("gd2fs_leases", "Answers that named bytes instead of carrying them", "leases"),
            (
                "gd2fs_readers_cut_off",
                "Readers that did not take what was held for them",
                "cut_off",
            ),
            ("gd2fs_received_corrupt", "Writes refused for a wrong checksum", "corrupt_in"),
            (
                "gd2fs_corrupt_pieces",
                "Stored copies dropped for a wrong checksum",
                "corrupt_pieces",
            ),
            (
                "gd2fs_unjudged_writes",
                "Writes that the site's rule has not judged",
                "unjudged",
            ),
        )
    ),
    Family(
        "gd2fs_transport_bytes",
        "Bytes of cache by the way that they took",
        "counter",
        ("transport", "direction"),
    ),
)

NAMESPACES = (
    Family(
        "gd2fs_namespace_lookups",
        "Pages and pieces that were to be read; of a miss, why: what became of it lately",
        "counter",
        ("namespace", "tier", "result", "reason"),
    ),
    Family(
        "gd2fs_namespace_probes",
        "Pages that were asked after without being read",
        "counter",
        ("namespace", "result"),
    ),
    Family("gd2fs_namespace_read_bytes", "Bytes that were read", "counter", ("namespace",)),
    Family(
        "gd2fs_namespace_written_bytes",
        "Bytes that clients wrote; what other nodes bring is not among them",
        "counter",
        ("namespace",),
    ),
    Family(
        "gd2fs_namespace_bytes",
        "Bytes of a namespace with rules; of all others without a name",
        labels=("namespace", "kind"),
    ),
    Family(
        "gd2fs_namespace_quota_bytes",
        "Quota of a namespace, where it has one",
        labels=("namespace", "kind"),
    ),
    Family(
        "gd2fs_namespace_pinned_over_quota_bytes",
        "Of its pinned bytes, what is more than its quota, kept until it is unpinned",
        labels=("namespace",),
    ),
)

PEERS = (
    Family("gd2fs_peer_up", "1 while the other node can be reached from here", labels=("peer",)),
    Family(
        "gd2fs_peer_requests",
        "Requests of this node that the other one answered, or failed to",
        "counter",
        ("peer",),
    ),
    Family("gd2fs_peer_failures", "Those that it failed to answer", "counter", ("peer",)),
    Family("gd2fs_peer_sent_bytes", "Bytes of cache that were brought to it", "counter", ("peer",)),
    Family("gd2fs_peer_request_seconds", "How long the answered ones took", "summary", ("peer",)),
)

NVME = (
    *_gauges(
        (
            ("gd2fs_nvme_size_bytes", "What the tier may take of its disks", "nvme_bytes"),
            (
                "gd2fs_nvme_usable_bytes",
                "Of these, what can hold data at a time",
                "nvme_usable_bytes",
            ),
            ("gd2fs_nvme_live_bytes", "What can be read there", "nvme_live_bytes"),
            ("gd2fs_nvme_records", "Pages and pieces there", "nvme_records"),
            ("gd2fs_nvme_cold_pieces", "Of these, what is not in memory", "cold_pieces"),
            ("gd2fs_nvme_cold_bytes", "Their bytes", "cold_bytes"),
            (
                "gd2fs_nvme_dirty_bytes",
                "Bytes in memory that are yet to be written there",
                "dirty_bytes",
            ),
            (
                "gd2fs_nvme_failed_places",
                "Alarm when over 0: disks not written to",
                "nvme_failed_places",
            ),
            ("gd2fs_nvme_losing", "Alarm when 1: evicted pieces go unwritten", "is_losing"),
        ),
        WITH_NVME,
    ),
    *_counters(
        (
            ("gd2fs_nvme_written_pieces", "Pieces written", "demoted_pieces"),
            ("gd2fs_nvme_written_bytes", "Their bytes", "demoted_bytes"),
            ("gd2fs_nvme_loaded_pieces", "Pieces brought back into memory", "loaded_pieces"),
            ("gd2fs_nvme_loaded_bytes", "Their bytes", "loaded_bytes"),
            ("gd2fs_nvme_read_bytes", "Bytes read from the disks in all", "nvme_read_bytes"),
            (
                "gd2fs_nvme_unwritten_pieces",
                "Evicted before they could be written",
                "undemoted_pieces",
            ),
            (
                "gd2fs_nvme_moved_bytes",
                "Written by the cleaner, beside that",
                "nvme_moved_bytes",
            ),
            (
                "gd2fs_nvme_lost_pieces",
                "Let go by the cleaner for want of room",
                "nvme_lost_records",
            ),
            ("gd2fs_nvme_failed_loads", "Pieces that could not be read", "failed_loads"),
            ("gd2fs_nvme_failed_writes", "Pieces that could not be written", "failed_demotions"),
            (
                "gd2fs_nvme_torn_records",
                "Records that ended early, found at the start",
                "nvme_torn",
            ),
            (
                "gd2fs_nvme_corrupt_headers",
                "Records whose header was wrong",
                "nvme_corrupt_headers",
            ),
            (
                "gd2fs_nvme_recovered_pieces",
                "Pieces found there at the start",
                "recovered_pieces",
            ),
            ("gd2fs_nvme_recovered_bytes", "Their bytes", "recovered_bytes"),
        ),
        WITH_NVME,
    ),
    Family("gd2fs_nvme_errors", "Failed calls of its disks", "counter", ("kind",), when=WITH_NVME),
)

ADMIN = (
    Family(
        "gd2fs_admin_refused",
        "Connections and requests that the admin side turned away",
        "counter",
        ("reason",),
    ),
)

SECTIONS: Mapping[str, tuple[Family, ...]] = {
    "The node and its cluster": NODE,
    "Memory": MEMORY,
    "Streams and requests": TRAFFIC,
    "Namespaces": NAMESPACES,
    "Other nodes": PEERS,
    "The disk tier": NVME,
    "The admin side": ADMIN,
}
FAMILIES: Mapping[str, Family] = {
    each.name: each for section in SECTIONS.values() for each in section
}
