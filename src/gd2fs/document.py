"""Document: one HTML file that needs nothing else: tables, pictures, what is folded away."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2b2b2b; background: #fff;
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; white-space: pre; }
thead th { border-bottom: 2px solid #2b2b2b; }
svg { max-width: 100%; height: auto; }
pre { overflow-x: auto; background: #f6f6f4; padding: 1rem; font-size: 13px; }
"""


def write_document(file: Path, title: str, parts: Iterable[str]) -> None:
    """Write a title and what follows it, as HTML; ``file`` is written over."""
    file.write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join([f"<h1>{text(title)}</h1>", *parts])
        + "\n</body></html>\n",
        encoding="utf-8",
    )


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first cell of each row is its label."""
    head = "".join(f'<th scope="col">{text(each)}</th>' for each in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def details(summary: str, value: object) -> str:
    """What is folded away, as JSON."""
    body = text(json.dumps(value, indent=1, ensure_ascii=False))
    return f"<details><summary>{text(summary)}</summary><pre>{body}</pre></details>"


def text(value: object) -> str:
    """As HTML can hold it."""
    return html.escape(str(value))
