"""Checks: what `gd2fs doctor` looks at, and why."""

from __future__ import annotations

from itertools import groupby

from gd2fs.doctor import all_checks
from gd2fs.reference import markdown

HEAD = """<!-- Made by `make reference` of the checks in src/gd2fs/doctor. -->

# What the doctor looks at

Every check of [`gd2fs doctor`](../guides/doctor.md): what is well, and why it matters. What is not
is a note, a warning or an error, with its fix."""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for group, members in groupby(all_checks(), key=lambda pair: pair[0]):
        rows = [(check.name, check.well, markdown.sentence(check.why)) for _, check in members]
        parts += [f"## {group}", markdown.table(("check", "is well", "why"), rows)]
    return markdown.page(parts)
