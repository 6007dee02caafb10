"""Measures: what the tier tells vLLM's metrics. Counters grow; the engine adds up what it is told.

Names begin as those of vLLM's own offloading do, so that one pattern finds them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PREFIX = "vllm:kv_offload_gd2fs_"

MISS_REASONS = {
    "absent": "the store does not have it",
    "late": "the store did not answer in time",
    "failed": "it could not be loaded",
    "away": "the node that should have it does not answer",
    "pool": "the pool of host memory has no room for more of this request",
    "slower": "computing it is expected to be quicker",
    "apart": "other instances hash otherwise, or the store has not told yet whether they do",
}
SHED_REASONS = {
    "queue": "too many stores wait",
    "apart": MISS_REASONS["apart"],
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric: its kind is ``counter`` or ``gauge``."""

    name: str
    kind: str
    text: str
    label: str = ""

    @property
    def full_name(self) -> str:
        """As it is registered."""
        return PREFIX + self.name


def _reasons(reasons: dict[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in reasons.items())


MEASURES = (
    Measure("hits", "counter", "Chunks that a request found in the store."),
    Measure(
        "misses",
        "counter",
        f"Chunks that a request did not get. {_reasons(MISS_REASONS)}.",
        "reason",
    ),
    Measure("loaded_chunks", "counter", "Chunks that were loaded."),
    Measure("loaded_bytes", "counter", "Bytes of chunks that were loaded."),
    Measure("load_seconds", "counter", "Time that loads took, from their beginning to their end."),
    Measure("failed_loads", "counter", "Chunks that were in the store and could not be loaded."),
    Measure("stored_chunks", "counter", "Chunks that are in the store now, by a store of ours."),
    Measure("stored_bytes", "counter", "Bytes of these; what was there already moved none."),
    Measure(
        "store_seconds", "counter", "Time that stores took, from their beginning to their end."
    ),
    Measure("failed_stores", "counter", "Chunks that the store did not take in time."),
    Measure(
        "shed_chunks",
        "counter",
        f"Chunks that were not stored to spare the engine. {_reasons(SHED_REASONS)}.",
        "reason",
    ),
    Measure("unanswered_calls", "counter", "Calls that no node answered in time."),
    Measure("standing", "gauge", "1: shares with the others; 0: not known yet; 2: refused."),
    Measure("load_bytes_per_second", "gauge", "At which rate loads run, as the gate sees it."),
    Measure("prefill_tokens_per_second", "gauge", "At which rate prompts are computed, likewise."),
    Measure("queued_store_bytes", "gauge", "Of stores that are not done."),
)
_BY_NAME = {measure.name: measure for measure in MEASURES}


class Tally:
    """What has happened since it was last asked. For one thread."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, str], float] = {}
        self._gauges: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def add(self, name: str, amount: float = 1, *, reason: str = "") -> None:
        """Count."""
        assert _BY_NAME[name].kind == "counter" and bool(reason) == bool(_BY_NAME[name].label)
        if amount:
            key = (name, reason)
            self._counters[key] = self._counters.get(key, 0) + amount

    def set(self, name: str, value: float) -> None:
        """State how things are; told only when it is news."""
        assert _BY_NAME[name].kind == "gauge"
        if self._told.get(name) != value:
            self._gauges[name] = self._told[name] = value

    def take(self) -> Iterable[tuple[Measure, float, tuple[str, ...]]]:
        """All that is new: the measure, the amount or the value, and the label."""
        counters, self._counters = self._counters, {}
        gauges, self._gauges = self._gauges, {}
        for (name, reason), amount in counters.items():
            yield _BY_NAME[name], amount, (reason,) if reason else ()
        for name, value in gauges.items():
            yield _BY_NAME[name], value, ()


def definitions(counter: Any, gauge: Any) -> dict[str, Any]:
    """vLLM's descriptions of all measures, made with its own classes."""
    kinds = {"counter": counter, "gauge": gauge}
    return {
        measure.full_name: kinds[measure.kind](
            documentation=measure.text, labelnames=(measure.label,) if measure.label else ()
        )
        for measure in MEASURES
    }
