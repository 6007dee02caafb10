"""Metrics: the counts of a node as Prometheus reads them. Nothing is counted here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from gd2fs import __version__
from gd2fs.membership.provider import Provider
from gd2fs.membership.state import NodeState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ARENA_STATES = ("free", "filling", "loading", "staged", "live", "zombie", "record")
REFUSALS = (  # as core/refusal.h has them
    "bad_hello",
    "no_token",
    "unknown_token",
    "wrong_proof",
    "timeout",
    "too_many",
    "rate",
    "left",
)
Counts = Mapping[str, int]
Space = tuple[bytes, int, int, int, int, int]  # as the native server says

# name, help, key of the counts. Units are in the names.
GAUGES = (
    ("gd2fs_arena_size_bytes", "Memory of the arena", "arena_bytes"),
    ("gd2fs_pages", "Pages that can be read", "pages"),
    ("gd2fs_pieces", "Pieces of files that can be read", "pieces"),
    ("gd2fs_file_records", "Records of files whose home this node is", "records"),
    ("gd2fs_record_log_bytes", "Of the log they are kept in; 0: out of order", "record_log_bytes"),
    ("gd2fs_map_epoch", "Epoch of the map in force", "epoch"),
    ("gd2fs_moves_left", "Pieces yet to be looked at, or to go elsewhere", "moves_left"),
    ("gd2fs_moves_left_bytes", "Their bytes", "moves_left_bytes"),
    ("gd2fs_file_records_left", "Records of files yet to go elsewhere", "records_left"),
    ("gd2fs_settled", "1 when every piece is where the map in force says", "is_settled"),
    ("gd2fs_connections", "Open streams", "connections"),
    ("gd2fs_strangers", "Of these, streams that have not proven themselves yet", "strangers"),
    ("gd2fs_views", "Views that readers look at", "views"),
    ("gd2fs_viewed_bytes", "Bytes kept in place for them", "view_bytes"),
    ("gd2fs_held_bytes", "Bytes on their way to readers by reference", "held_bytes"),
)
COUNTERS = (
    ("gd2fs_connections_accepted", "Streams that were opened", "accepted"),
    ("gd2fs_connections_refused", "Streams that were refused", "refused"),
    ("gd2fs_protocol_faults", "Streams closed for a broken frame", "protocol_faults"),
    ("gd2fs_requests", "Requests that were answered", "requests"),
    ("gd2fs_denied_requests", "Of these, what was beyond the rights of their stream", "denied"),
    ("gd2fs_received_bytes", "Bytes of cache that came in", "bytes_in"),
    ("gd2fs_sent_bytes", "Bytes of cache that went out", "bytes_out"),
    ("gd2fs_spliced_bytes", "Of the bytes sent: left the arena by reference", "bytes_spliced"),
    ("gd2fs_readers_cut_off", "Readers that did not take what was held for them", "cut_off"),
    ("gd2fs_leased_bytes", "Of these, bytes copied by their readers over shm", "bytes_leased"),
    ("gd2fs_leases", "Answers that named bytes instead of carrying them", "leases"),
    ("gd2fs_received_corrupt", "Writes refused for a wrong checksum", "corrupt_in"),
    ("gd2fs_corrupt_pieces", "Stored copies dropped for a wrong checksum", "corrupt_pieces"),
    ("gd2fs_evicted_pieces", "Pieces that went for lack of room", "evicted_pieces"),
    ("gd2fs_evicted_bytes", "Bytes that went for lack of room", "evicted_bytes"),
    ("gd2fs_record_log_faults", "Writes to that log that failed", "record_log_faults"),
    ("gd2fs_moved_pieces", "Copies brought to other nodes", "moved"),
    ("gd2fs_moved_bytes", "Their bytes", "moved_bytes"),
    (
        "gd2fs_unjudged_writes",
        "Writes that the site's rule has not judged",
        "unjudged",
    ),
    ("gd2fs_expired_pieces", "Pieces that went at the end of their time to live", "expired_pieces"),
)

NVME_GAUGES = (
    ("gd2fs_nvme_size_bytes", "What the tier may take of its disks", "nvme_bytes"),
    ("gd2fs_nvme_usable_bytes", "Of these, what can hold data at a time", "nvme_usable_bytes"),
    ("gd2fs_nvme_live_bytes", "What can be read there", "nvme_live_bytes"),
    ("gd2fs_nvme_records", "Pages and pieces there", "nvme_records"),
    ("gd2fs_nvme_cold_pieces", "Of these, what is not in memory", "cold_pieces"),
    ("gd2fs_nvme_cold_bytes", "Their bytes", "cold_bytes"),
    ("gd2fs_nvme_dirty_bytes", "Bytes in memory that are yet to be written there", "dirty_bytes"),
    ("gd2fs_nvme_failed_places", "Alarm when over 0: disks not written to", "nvme_failed_places"),
    ("gd2fs_nvme_losing", "Alarm when 1: evicted pieces go unwritten", "is_losing"),
)
NVME_COUNTERS = (
    ("gd2fs_nvme_written_pieces", "Pieces written", "demoted_pieces"),
    ("gd2fs_nvme_written_bytes", "Their bytes", "demoted_bytes"),
    ("gd2fs_nvme_loaded_pieces", "Pieces brought back into memory", "loaded_pieces"),
    ("gd2fs_nvme_loaded_bytes", "Their bytes", "loaded_bytes"),
    ("gd2fs_nvme_unwritten_pieces", "Evicted before they could be written", "undemoted_pieces"),
    ("gd2fs_nvme_moved_bytes", "Written by the cleaner, beside that", "nvme_moved_bytes"),
    ("gd2fs_nvme_lost_pieces", "Let go by the cleaner for want of room", "nvme_lost_records"),
    ("gd2fs_nvme_failed_loads", "Pieces that could not be read", "failed_loads"),
    ("gd2fs_nvme_torn_records", "Records that ended early, found at the start", "nvme_torn"),
    ("gd2fs_nvme_corrupt_headers", "Records whose header was wrong", "nvme_corrupt_headers"),
    ("gd2fs_nvme_recovered_pieces", "Pieces found there at the start", "recovered_pieces"),
    ("gd2fs_nvme_recovered_bytes", "Their bytes", "recovered_bytes"),
)
NVME_ERRORS = ("read", "write", "sync", "full")


class NodeCollector:
    """Asks the node for its counts whenever it is scraped."""

    def __init__(
        self,
        counts: Callable[[], Counts],
        labels: Mapping[str, str],
        provider: Provider,
        spaces: Callable[[], Sequence[Space]] = list,
    ) -> None:
        self._counts = counts
        self._spaces = spaces
        self._labels = dict(labels)
        self._provider = provider

    def collect(self) -> Iterable[Metric]:
        """Yield every metric of the node."""
        counts = self._counts()
        yield InfoMetricFamily(
            "gd2fs_node", "The node", value=self._labels | {"version": __version__}
        )
        yield _arena(counts)
        yield _lookups(counts)
        yield _refused(counts)
        yield from _membership(self._provider)
        yield from _namespaces(self._spaces())
        for name, text, key in GAUGES:
            yield GaugeMetricFamily(name, text, value=counts[key])
        for name, text, key in COUNTERS:
            yield CounterMetricFamily(name, text, value=counts[key])
        if counts["nvme_bytes"]:
            yield from _nvme(counts)


def render(collector: NodeCollector) -> bytes:
    """Return the whole page in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)  # type: ignore[arg-type]
    return generate_latest(registry)


def _arena(counts: Counts) -> Metric:
    family = GaugeMetricFamily(
        "gd2fs_arena_bytes", "Where the arena's bytes are; the sum is its size", labels=["state"]
    )
    for state in ARENA_STATES:
        family.add_metric([state], counts[f"{state}_bytes"])
    return family


def _nvme(counts: Counts) -> Iterable[Metric]:
    for name, text, key in NVME_GAUGES:
        yield GaugeMetricFamily(name, text, value=counts[key])
    for name, text, key in NVME_COUNTERS:
        yield CounterMetricFamily(name, text, value=counts[key])
    errors = CounterMetricFamily("gd2fs_nvme_errors", "Failed calls of its disks", labels=["kind"])
    for kind in NVME_ERRORS:
        errors.add_metric([kind], counts[f"nvme_{kind}_errors"])
    yield errors


def _membership(provider: Provider) -> Iterable[Metric]:
    now = provider.state()
    state = GaugeMetricFamily("gd2fs_state", "1 for the node's state in the map", labels=["state"])
    for each in NodeState:
        state.add_metric([each.name.lower()], float(each == now))
    yield state
    left_s = provider.lease_left_s()
    if left_s is not None:
        text = "Until then it answers for records of files without another keep-alive"
        yield GaugeMetricFamily("gd2fs_lease_left_seconds", text, value=left_s)


def _namespaces(spaces: Sequence[Space]) -> Iterable[Metric]:
    """Of each namespace with rules of its own; without a name: of all others."""
    text = "Bytes of a namespace with rules; of all others without a name"
    bytes_of = GaugeMetricFamily("gd2fs_namespace_bytes", text, labels=["namespace", "kind"])
    text = "Quota of a namespace, where it has one"
    quotas = GaugeMetricFamily("gd2fs_namespace_quota_bytes", text, labels=["namespace", "kind"])
    for space in spaces:
        name = space[0].decode("utf-8", "replace")
        for kind, count in zip(("memory", "pinned", "disk"), space[1:4], strict=True):
            bytes_of.add_metric([name, kind], count)
        for kind, quota in (("memory", space[4]), ("disk", space[5])):
            if quota:
                quotas.add_metric([name, kind], quota)
    text = "Of its pinned bytes, what is more than its quota, kept until it is unpinned"
    over = GaugeMetricFamily("gd2fs_namespace_pinned_over_quota_bytes", text, labels=["namespace"])
    for space in spaces:
        if space[4]:
            over.add_metric([space[0].decode("utf-8", "replace")], max(space[2] - space[4], 0))
    yield bytes_of
    yield quotas
    yield over


def _refused(counts: Counts) -> Metric:
    family = CounterMetricFamily(
        "gd2fs_refused_streams", "Streams that never came to ask anything", labels=["reason"]
    )
    for reason in REFUSALS:
        family.add_metric([reason], counts[f"refused_{reason}"])
    return family


def _lookups(counts: Counts) -> Metric:
    family = CounterMetricFamily("gd2fs_lookups", "Pages and pieces asked for", labels=["result"])
    family.add_metric(["hit"], counts["hits"])
    family.add_metric(["miss"], counts["misses"])
    return family
