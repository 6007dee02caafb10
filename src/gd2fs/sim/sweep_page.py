"""Sweep page: all settings as points, those that nothing beats joined, one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gd2fs.document import details, table, text, write_document
from gd2fs.drawing import INK, drawing, svg_of
from gd2fs.sim.chart import COLOURS
from gd2fs.sim.sweep_command import best_of, cells_of, note_of, place_of

LOG_FROM = 30  # times the least: then the scale is logarithmic


def write_sweep_page(
    file: Path, runs: Sequence[dict[str, Any]], varied: Sequence[str], measures: Any
) -> None:
    """Write it; ``file`` is written over."""
    best, note = best_of(runs, measures), note_of(runs)
    (first, _), (second, _) = measures
    title = f"{len(runs):,} settings: {first} against {second}"
    heads = ("", *(name.replace("_", " ") for name in varied), "blocks found", first, second)
    parts = [
        _chart(runs, best, measures),
        table("Those that nothing beats in both", heads, _rows(runs, best, varied, measures)),
        table("All", heads, _rows(runs, range(len(runs)), varied, measures)),
        f"<p>{text(note)}</p>" if note else "",
        details("All figures", list(runs)),
    ]
    write_document(file, title, [part for part in parts if part])


def _rows(
    runs: Sequence[dict[str, Any]], which: Sequence[int], varied: Sequence[str], measures: Any
) -> list[tuple[str, ...]]:
    return [
        (str(number), *cells_of(runs[at], varied, measures)) for number, at in enumerate(which, 1)
    ]


def _chart(runs: Sequence[dict[str, Any]], best: Sequence[int], measures: Any) -> str:
    found = {at: place_of(run, measures) for at, run in enumerate(runs)}
    places = {at: (x, y) for at, (x, y) in found.items() if x is not None and y is not None}
    if not places:
        return ""
    with drawing(1, 1, height=6.0) as (figure, axes):
        area = axes[0][0]
        for topology, colour in COLOURS.items():
            own = [places[at] for at in places if runs[at]["topology"] == topology]
            if own:
                xs, ys = zip(*own, strict=True)
                area.plot(xs, ys, "o", color=colour, label=topology, markersize=6)
        if best:
            line = [places[at] for at in best]
            area.step(*zip(*line, strict=True), where="post", color=INK, linewidth=1)
        for number, at in enumerate(best, 1):
            area.annotate(
                str(number), places[at], (6, 4), textcoords="offset points", fontsize=9, color=INK
            )
        (first, _), (second, _) = measures
        area.set_xlabel(first)
        area.set_ylabel(second)
        least, most = min(y for _, y in places.values()), max(y for _, y in places.values())
        if least > 0 and most / least > LOG_FROM:
            area.set_yscale("log")
        area.set_title("Nothing lies below and to the left of the line")
        area.legend(frameon=False)
        return svg_of(figure)
