"""Report: what a node says of itself to whoever looks at the whole cluster. It counts nothing.

It travels as JSON in answer to ``{"do": "report"}``, the way that questions about settings go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gd2fs import __version__
from gd2fs.membership.provider import Provider
from gd2fs.overview.latency import buckets_of
from gd2fs.overview.namespaces import lookups_of

EVICTIONS_TOLD = 32  # groups of them, the newest first
Space = tuple[bytes, int, int, int, int, int]  # as the native server says
Departed = tuple[int, int, str, str, bytes, bytes, int, int]  # likewise

# Of the native server's counts; what only grows is in RATES of watch too.
COUNTS = (
    "arena_bytes",
    "free_bytes",
    "live_bytes",
    "pages",
    "pieces",
    "records",
    "connections",
    "requests",
    "hits",
    "misses",
    "bytes_in",
    "bytes_out",
    "evicted_pieces",
    "evicted_bytes",
    "expired_pieces",
    "corrupt_in",
    "corrupt_pieces",
    "moves_left",
    "moves_left_bytes",
    "records_left",
    "moved",
    "moved_bytes",
    "is_settled",
    "nvme_bytes",
    "nvme_usable_bytes",
    "nvme_live_bytes",
    "cold_bytes",
    "dirty_bytes",
    "demoted_bytes",
    "loaded_bytes",
    "nvme_failed_places",
    "is_losing",
    "record_log_faults",
)


class Reporter:
    """Makes the reports of one node, from the moment of its start."""

    def __init__(
        self,
        counts: Callable[[], Mapping[str, int]],
        spaces: Callable[[], Sequence[Space]],
        departures: Callable[[int], Sequence[Departed]],
        tally: Callable[[], Mapping[str, Any]],
        provider: Provider,
        *,
        rung: str,
        spread: Callable[[], Mapping[str, Any]] = dict,
        rdma_lack: str,
    ) -> None:
        self._counts = counts
        self._spaces = spaces
        self._departures = departures
        self._tally = tally
        self._provider = provider
        self._rung = rung
        self._spread = spread
        self._rdma_lack = rdma_lack
        self._start_s = time.monotonic()

    def report(self) -> dict[str, Any]:
        """The node as it is now.

        Returns:
            ``up_ms``: since its start, by a clock that never jumps: counts of two reports are this
            far apart. ``rdma_lack``: why it takes part in no RDMA; empty when it does.
            ``counts``: see COUNTS. ``namespaces``: of each that has rules, and first of all others
            without a name: bytes in memory, pinned, on disk, and both quotas.
            ``lookups`` and ``buckets``: see namespaces and latency.
            ``numa``: how memory lies at NUMA nodes, as the native server says it.
            ``evictions``: groups of what went lately, the newest first.
        """
        counts, tally = self._counts(), self._tally()
        return {
            "up_ms": round((time.monotonic() - self._start_s) * 1e3),
            "version": __version__,
            "rung": self._rung,
            "numa": self._spread(),
            "rdma_lack": self._rdma_lack,
            "state": self._provider.state().name.lower(),
            "not_ready": self._provider.why_not_ready(),
            "epoch": counts["epoch"],
            "counts": {name: counts[name] for name in COUNTS},
            "namespaces": [[_text(space[0]), *space[1:]] for space in self._spaces()],
            "lookups": lookups_of(tally),
            "buckets": buckets_of(tally),
            "evictions": [_eviction(each) for each in self._departures(EVICTIONS_TOLD)],
        }


def _eviction(departed: Departed) -> dict[str, Any]:
    first_ms, last_ms, cause, policy, namespace, for_whom, pieces, size = departed
    return {
        "first_ms": first_ms,
        "last_ms": last_ms,
        "cause": cause,
        "policy": policy,
        "namespace": _text(namespace),
        "for_whom": _text(for_whom),
        "pieces": pieces,
        "bytes": size,
    }


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
