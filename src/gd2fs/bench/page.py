"""Page: a run as one HTML file that needs nothing else: table, charts, all figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gd2fs.bench.chart import chart_svg
from gd2fs.bench.measures import Pair
from gd2fs.bench.report import HEADINGS, cells_of
from gd2fs.document import details, table, text, write_document


def write_page(
    file: Path,
    *,
    title: str,
    pairs: Sequence[Pair],
    instances: int,
    drawn: Pair,
    remarks: Iterable[str],
    facts: dict[str, Any],
    rounds: Sequence[tuple[str, ...]] = (),
) -> None:
    """Write a run.

    Args:
        file: Written over.
        title: Of the page.
        pairs: The runs: the table has their medians.
        instances: Engines of each topology.
        drawn: The run that the charts show.
        remarks: What the table cannot say, a line each.
        facts: All figures, as JSON can hold them.
        rounds: Rows of a table by round: round, A, B, what is possible.
    """
    parts = [
        table("Medians over the runs" if len(pairs) > 1 else "", ("", *HEADINGS), cells_of(pairs)),
        *(f"<p>{text(line)}</p>" for line in remarks),
    ]
    if rounds:
        heads = ("round", "A: private caches", "B: GD2FS", "all of the history")
        parts.append(table("Prompt tokens found in a cache, by round", heads, rounds))
    parts += [chart_svg(drawn, instances), details("All figures", facts)]
    write_document(file, title, parts)
