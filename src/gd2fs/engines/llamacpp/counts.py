"""Counts: what an instance did, as JSON and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


@dataclass(slots=True)
class Counts:
    """Ever-growing counts of one instance. Changed on the event loop only."""

    turns: int = 0  # answers completed
    turns_unnamed: int = 0  # of these, without a session and without messages: not kept
    restores: int = 0
    restored_bytes: int = 0
    restored_tokens: int = 0
    restore_misses: int = 0  # the store has nothing of this conversation
    restore_failures: int = 0  # the store or the engine refused; the turn was computed instead
    saves: int = 0
    saved_bytes: int = 0
    save_failures: int = 0  # the answer went out all the same
    reused_tokens: int = 0  # of prompts, found in the slot; the engine's own count
    computed_tokens: int = 0  # of prompts

    def as_dict(self) -> dict[str, int]:
        """Names and values."""
        return asdict(self)


class CountsCollector(Collector):
    """Gives the counts to Prometheus when it asks."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        for each in fields(self._counts):
            value = getattr(self._counts, each.name)
            name = f"gd2fs_llamacpp_{each.name}"
            yield CounterMetricFamily(name, f"{each.name.replace('_', ' ')}", value=value)


def prometheus_text(counts: Counts) -> bytes:
    """The counts in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(CountsCollector(counts))
    return generate_latest(registry)
