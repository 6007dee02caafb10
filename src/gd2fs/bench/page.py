"""Page: a run as one HTML file that needs nothing else: table, charts, all figures."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gd2fs.bench.chart import chart_svg
from gd2fs.bench.measures import Pair
from gd2fs.bench.report import HEADINGS, cells_of

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2b2b2b; background: #fff;
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #2b2b2b; }
svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; background: #f6f6f4; padding: 1rem; font-size: 13px; }
"""


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
        f"<h1>{_text(title)}</h1>",
        _table("Medians over the runs" if len(pairs) > 1 else "", ("", *HEADINGS), cells_of(pairs)),
        *(f"<p>{_text(line)}</p>" for line in remarks),
    ]
    if rounds:
        heads = ("round", "A: private caches", "B: GD2FS", "all of the history")
        parts.append(_table("Prompt tokens found in a cache, by round", heads, rounds))
    parts.append(chart_svg(drawn, instances))
    everything = json.dumps(facts, indent=1, ensure_ascii=False)
    parts.append(f"<details><summary>All figures</summary><pre>{_text(everything)}</pre></details>")
    file.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n",
        encoding="utf-8",
    )


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{_text(each)}</th>' for each in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _text(value: object) -> str:
    return html.escape(str(value))
