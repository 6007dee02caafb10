"""Violation: one thing that a history shows and that must never be."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.operation import Record


@dataclass(frozen=True)
class Violation:
    """``rule`` was broken; ``records`` show it, the one that saw it first."""

    rule: str
    text: str
    records: tuple[Record, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.rule}: {self.text}", *map(str, self.records)])
