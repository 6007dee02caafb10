"""Outcome: what several runs of both arms came to. Ratios are made within a run, then medians."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gd2fs.bench.load import Played
from gd2fs.bench.measures import Arm, Pair, agreement, ratios_of, requests_of


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """What came out.

    Attributes:
        title: What was measured, one line.
        pairs: The runs.
        instances: Engines of each arm.
        engine: Name, version and settings of the engine.
        machine: Where it was measured.
        workload: What was asked.
        has_reference: Whether an instance that kept its cache has said what is right.
    """

    title: str
    pairs: Sequence[Pair]
    instances: int
    engine: dict[str, Any]
    machine: dict[str, Any]
    workload: dict[str, Any]
    has_reference: bool
    remarks: Sequence[str] = field(default=())

    @property
    def middle(self) -> Pair:
        """The run whose ratio of requests per second is the median: charts show this one."""
        ordered = sorted(self.pairs, key=_speedup)
        return ordered[len(ordered) // 2]

    @property
    def ratios(self) -> dict[str, Any]:
        """B's figures in parts of A's: medians over the runs."""
        return median_of([ratios_of(pair.before, pair.after) for pair in self.pairs])

    @property
    def arms(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The figures of A and of B: medians over the runs."""
        return (
            median_of([_figures(pair.before) for pair in self.pairs]),
            median_of([_figures(pair.after) for pair in self.pairs]),
        )

    @property
    def disagreeing(self) -> int:
        """Answers of B, over all runs, that are not the reference's; without one, not A's."""
        if self.has_reference:
            return sum(not each.agrees for pair in self.pairs for each in pair.played_after)
        return sum(
            round((1 - agreement(pair.played_before, pair.played_after)) * len(pair.played_after))
            for pair in self.pairs
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        before, after = self.arms
        return {
            "title": self.title,
            "arms": {"A": before, "B": after},
            "ratios": self.ratios,
            "rounds": {
                "A": hits_by_round(self.middle.played_before),
                "B": hits_by_round(self.middle.played_after),
            },
            "runs": [
                {"A": _figures(pair.before), "B": _figures(pair.after)} for pair in self.pairs
            ],
            "disagreeing": self.disagreeing,
            "texts_agree_arms": [
                agreement(pair.played_before, pair.played_after) for pair in self.pairs
            ],
            "instances": self.instances,
            "workload": self.workload,
            "engine": self.engine,
            "machine": self.machine,
            "requests": {
                "A": requests_of(self.middle.played_before),
                "B": requests_of(self.middle.played_after),
            },
        }


def hits_by_round(played: Sequence[Played]) -> list[float]:
    """For each round the share of its prompts' tokens that was found in a cache."""
    found: dict[int, int] = defaultdict(int)
    asked: dict[int, int] = defaultdict(int)
    for each in played:
        found[each.turn.index] += each.answer.reused_tokens
        asked[each.turn.index] += each.answer.reused_tokens + each.answer.computed_tokens
    return [found[index] / asked[index] if asked[index] else 0.0 for index in sorted(asked)]


def ideal_by_round(played: Sequence[Played]) -> list[float]:
    """The same of a cache that keeps all of every earlier turn."""
    kept: dict[int, int] = defaultdict(int)
    asked: dict[int, int] = defaultdict(int)
    for each in played:
        kept[each.turn.index] += each.turn.history_tokens
        asked[each.turn.index] += each.answer.reused_tokens + each.answer.computed_tokens
    return [kept[index] / asked[index] if asked[index] else 0.0 for index in sorted(asked)]


def median_of(values: Sequence[Any]) -> Any:
    """The median of equal shapes: of each number that is in them."""
    first = values[0]
    if isinstance(first, dict):
        return {name: median_of([each[name] for each in values]) for name in first}
    known = [each for each in values if each is not None]
    return statistics.median(known) if known else None


def _figures(arm: Arm) -> dict[str, Any]:
    figures = asdict(arm)
    del figures["engine_counts"]
    return figures


def _speedup(pair: Pair) -> float:
    return pair.after.requests_per_s / pair.before.requests_per_s
