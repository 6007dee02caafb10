"""Page: a run as one HTML file that needs nothing else: table, charts, inputs, all figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gd2fs.document import details, table, write_document
from gd2fs.sim.chart import charts_svg
from gd2fs.sim.report import headings_of, rows_of, title_of

if TYPE_CHECKING:
    from gd2fs.sim.playing import Played


def write_page(
    file: Path,
    trace: dict[str, Any],
    runs: Sequence[dict[str, Any]],
    played: Sequence[Played],
) -> None:
    """Write a run; ``file`` is written over."""
    title = title_of(trace, runs[0])
    parts = [
        table("", ("", *headings_of(runs)), rows_of(runs)),
        charts_svg(played, runs),
        table("Inputs", ("", "value"), _inputs(trace, runs[-1]["setting"])),
        details("All figures", {"trace": trace, "runs": list(runs)}),
    ]
    write_document(file, title, parts)


def _inputs(trace: dict[str, Any], setting: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in {**trace, **setting}.items():
        if isinstance(value, dict):
            yield from ((f"{name}: {inner}", f"{each:g}") for inner, each in value.items())
        elif name != "topology":
            yield name, f"{value:,}" if isinstance(value, int) else str(value)
