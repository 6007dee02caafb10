"""Sweep page: all settings as points, those that nothing beats joined, one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gd2fs.document import details, table, write_document
from gd2fs.drawing import INK, drawing, svg_of
from gd2fs.sim.chart import COLOURS
from gd2fs.sim.sweep import pareto
from gd2fs.sim.sweep_command import points_of

LOG_FROM = 30  # times the least: then the scale is logarithmic


def write_sweep_page(
    file: Path, runs: Sequence[dict[str, Any]], varied: Sequence[str], measures: Any
) -> None:
    """Write it; ``file`` is written over."""
    places = [points_of(run, measures) for run in runs]
    best = pareto(places)
    (first, _), (second, _) = measures
    title = f"{len(runs):,} settings: {first} against {second}"
    heads = ("", *(name.replace("_", " ") for name in varied), "blocks found", first, second)
    parts = [
        _chart(runs, places, best, measures),
        table("Those that nothing beats in both", heads, _rows(runs, places, best, varied)),
        table("All", heads, _rows(runs, places, range(len(runs)), varied)),
        details("All figures", list(runs)),
    ]
    write_document(file, title, parts)


def _rows(
    runs: Sequence[dict[str, Any]],
    places: Sequence[tuple[float, float]],
    which: Sequence[int],
    varied: Sequence[str],
) -> list[tuple[str, ...]]:
    return [
        (
            str(number),
            *(str(runs[at]["setting"][name]) for name in varied),
            f"{runs[at]['block_hit_rate']:.1%}",
            *(f"{value:,.4g}" for value in places[at]),
        )
        for number, at in enumerate(which, 1)
    ]


def _chart(
    runs: Sequence[dict[str, Any]],
    places: Sequence[tuple[float, float]],
    best: Sequence[int],
    measures: Any,
) -> str:
    with drawing(1, 1, height=6.0) as (figure, axes):
        area = axes[0][0]
        for topology, colour in COLOURS.items():
            own = [at for at, run in enumerate(runs) if run["topology"] == topology]
            if own:
                xs, ys = zip(*(places[at] for at in own), strict=True)
                area.plot(xs, ys, "o", color=colour, label=topology, markersize=6)
        line = [places[at] for at in best]
        area.step(*zip(*line, strict=True), where="post", color=INK, linewidth=1)
        for number, at in enumerate(best, 1):
            area.annotate(
                str(number), places[at], (6, 4), textcoords="offset points", fontsize=9, color=INK
            )
        (first, _), (second, _) = measures
        area.set_xlabel(first)
        area.set_ylabel(second)
        least, most = min(y for _, y in places), max(y for _, y in places)
        if least > 0 and most / least > LOG_FROM:
            area.set_yscale("log")
        area.set_title("Nothing lies below and to the left of the line")
        area.legend(frameon=False)
        return svg_of(figure)
