"""Metrics: the counts of a node as Prometheus reads them. Nothing is counted here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from gd2fs import __version__
from gd2fs.membership.provider import Provider
from gd2fs.membership.state import NodeState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ARENA_STATES = ("free", "filling", "staged", "live", "zombie", "record")
Counts = Mapping[str, int]

# name, help, key of the counts. Units are in the names.
GAUGES = (
    ("gd2fs_arena_size_bytes", "Memory of the arena", "arena_bytes"),
    ("gd2fs_pages", "Pages that can be read", "pages"),
    ("gd2fs_pieces", "Pieces of files that can be read", "pieces"),
    ("gd2fs_file_records", "Records of files whose home this node is", "records"),
    ("gd2fs_map_epoch", "Epoch of the map in force", "epoch"),
    ("gd2fs_moves_left", "Pieces yet to be looked at, or to go elsewhere", "moves_left"),
    ("gd2fs_moves_left_bytes", "Their bytes", "moves_left_bytes"),
    ("gd2fs_file_records_left", "Records of files yet to go elsewhere", "records_left"),
    ("gd2fs_settled", "1 when every piece is where the map in force says", "is_settled"),
    ("gd2fs_connections", "Open streams", "connections"),
    ("gd2fs_views", "Views that readers look at", "views"),
    ("gd2fs_viewed_bytes", "Bytes kept in place for them", "view_bytes"),
    ("gd2fs_held_bytes", "Bytes on their way to readers by reference", "held_bytes"),
)
COUNTERS = (
    ("gd2fs_connections_accepted", "Streams that were opened", "accepted"),
    ("gd2fs_connections_refused", "Streams that were refused", "refused"),
    ("gd2fs_protocol_faults", "Streams closed for a broken frame", "protocol_faults"),
    ("gd2fs_requests", "Requests that were answered", "requests"),
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
    ("gd2fs_moved_pieces", "Copies brought to other nodes", "moved"),
    ("gd2fs_moved_bytes", "Their bytes", "moved_bytes"),
    ("gd2fs_expired_pieces", "Pieces that went at the end of their time to live", "expired_pieces"),
)


class NodeCollector:
    """Asks the node for its counts whenever it is scraped."""

    def __init__(
        self, counts: Callable[[], Counts], labels: Mapping[str, str], provider: Provider
    ) -> None:
        self._counts = counts
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
        yield from _membership(self._provider)
        for name, text, key in GAUGES:
            yield GaugeMetricFamily(name, text, value=counts[key])
        for name, text, key in COUNTERS:
            yield CounterMetricFamily(name, text, value=counts[key])


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


def _lookups(counts: Counts) -> Metric:
    family = CounterMetricFamily("gd2fs_lookups", "Pages and pieces asked for", labels=["result"])
    family.add_metric(["hit"], counts["hits"])
    family.add_metric(["miss"], counts["misses"])
    return family
