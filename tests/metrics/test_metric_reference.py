"""The reference of metrics is what the table of metrics makes of itself."""

from __future__ import annotations

import re
from pathlib import Path

from gd2fs.metrics import FAMILIES, reference

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/metrics.md"


def test_the_reference_is_made_of_the_table():
    written = PAGE.read_text(encoding="utf-8")

    assert written == reference.text(), "run `python -m gd2fs.metrics.reference`"


def test_every_metric_has_a_line_of_its_own():
    rows = re.findall(r"^\| `(gd2fs_\w+)` \|", reference.text(), re.MULTILINE)

    assert len(rows) == len(set(rows)) == len(FAMILIES)
