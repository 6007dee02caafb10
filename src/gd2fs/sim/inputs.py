"""Inputs: the files that a simulation reads, none of which it may write over."""

from __future__ import annotations

from pathlib import Path

from gd2fs.sim.engine import PRESETS
from gd2fs.sim.made import is_made


def inputs_of(trace: str, engine: str = "none", prices: Path | None = None) -> dict[str, Path]:
    """The files that a simulation reads, by what they are."""
    found = {}
    if not is_made(trace):
        found["the trace"] = Path(trace)
    if engine != "none" and engine not in PRESETS:
        found["`--engine`"] = Path(engine)
    if prices is not None:
        found["`--prices`"] = prices
    return found
