"""Page: what a node's `/metrics` says, as series with labels."""

from __future__ import annotations

import urllib.request
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Page:
    """One scrape."""

    text: str

    @classmethod
    def of(cls, admin: str) -> Page:
        """Of the node whose admin side is at ``ADDR:PORT``."""
        with urllib.request.urlopen(f"http://{admin}/metrics", timeout=10) as answer:
            return cls(answer.read().decode())

    @property
    def families(self) -> dict[str, Metric]:
        return {each.name: each for each in text_string_to_metric_families(self.text)}

    @property
    def series(self) -> dict[str, set[str]]:
        """The names of all samples, each with its labels."""
        found: dict[str, set[str]] = {}
        for family in self.families.values():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels, and perhaps others."""
        return sum(
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )
