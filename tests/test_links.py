"""Links of all pages lead to files and headings that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEXTS = DOCS / "reference" / "text"  # parts of the pages one folder up
PROSE = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("path", PROSE, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_there_are(path):
    broken = [
        link for link in LINK.findall(path.read_text(encoding="utf-8")) if is_broken(path, link)
    ]

    assert not broken


def is_broken(page: Path, link: str) -> bool:
    if "://" in link or link.startswith("mailto:"):
        return False
    where, _, heading = link.partition("#")
    base = DOCS / "reference" if page.parent == TEXTS else page.parent
    target = (base / where).resolve() if where else page
    if not target.exists():
        return True
    return bool(heading) and heading not in anchors(target)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in plain}
