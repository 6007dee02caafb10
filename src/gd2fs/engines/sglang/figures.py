"""Figures: what the plug-in did, in SGLang's own metrics and for its own logger.

With `--enable-metrics` SGLang gathers the metrics of all its processes through files. A counter
made here takes part in that by itself, so ours are at the server's `/metrics` beside SGLang's. The
plug-in counts without Prometheus; what has grown since is passed on after each call.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from gd2fs.engines.counts import CountsBoard
from gd2fs.engines.gate import LoadGate

PREFIX = "gd2fs_sglang_"
SAMPLES_MAX = 1000  # of transfers between two questions

log = logging.getLogger(__name__)


class Figures:
    """Counts of one backend, given to Prometheus and to SGLang. Thread-safe.

    Args:
        board: What is counted.
        gate: Whose rates are shown.
        labels: Of every metric.
        is_shown: Whether Prometheus gets them.
    """

    def __init__(
        self, board: CountsBoard, gate: LoadGate, labels: dict[str, str], *, is_shown: bool
    ) -> None:
        self._board = board
        self._gate = gate
        self._lock = threading.Lock()  # Guards: all below. Held for arithmetic only.
        self._told = dict.fromkeys(board.as_dict(), 0)
        self._transfers: dict[str, list[Any]] = _no_transfers()
        self._counters: dict[str, Any] = {}
        self._gauges: dict[str, Any] = {}
        if is_shown:
            self._make_metrics(labels)

    def transferred(self, kind: str, *, pages: int, size: int, seconds: float) -> None:
        """Note a transfer, ``prefetch`` or ``backup``, for SGLang's histograms."""
        if not pages or seconds <= 0:
            return
        with self._lock:
            if len(self._transfers[f"{kind}_pgs"]) < SAMPLES_MAX:
                self._transfers[f"{kind}_pgs"].append(pages)
                self._transfers[f"{kind}_bandwidth"].append(size / seconds / 1e9)

    def take_transfers(self) -> dict[str, list[Any]]:
        """The transfers since the last call."""
        with self._lock:
            taken, self._transfers = self._transfers, _no_transfers()
        return taken

    def publish(self) -> None:
        """Pass on what has grown since the last time. Raises nothing: a full disk, on which
        Prometheus keeps what processes share, is no reason to end a thread of SGLang's."""
        if not self._counters:
            return
        try:
            self._publish()
        except Exception as error:
            log.error("figures are not shown: %r", error)

    def _publish(self) -> None:
        with self._lock:
            counts = self._board.as_dict()
            grown = {name: value - self._told[name] for name, value in counts.items()}
            self._told = counts
        for name, counter in self._counters.items():
            if grown[name]:
                counter.inc(grown[name])
        rates = self._gate.rates()
        self._gauges["load_bytes_per_second"].set(rates.load_bytes_per_s)
        self._gauges["compute_tokens_per_second"].set(rates.compute_tokens_per_s)

    def _make_metrics(self, labels: dict[str, str]) -> None:
        """In a registry of their own: attached again, names must not clash, and counts go on."""
        registry = CollectorRegistry()
        names = list(labels)
        for name in self._told:
            text = name.replace("_", " ")
            metric = Counter(f"{PREFIX}{name}", text, names, registry=registry)
            self._counters[name] = metric.labels(**labels)
        for name in ("load_bytes_per_second", "compute_tokens_per_second"):
            gauge = Gauge(
                f"{PREFIX}{name}",
                f"{name.replace('_', ' ')}, as observed; 0: not yet",
                names,
                registry=registry,
                multiprocess_mode="livemax",
            )
            self._gauges[name] = gauge.labels(**labels)


def _no_transfers() -> dict[str, list[Any]]:
    names = ("prefetch_pgs", "prefetch_bandwidth", "backup_pgs", "backup_bandwidth")
    return {name: [] for name in names}
