"""Markdown: tables and texts of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

COLUMNS_MAX = 118


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; empty without rows."""
    lines = [" | ".join(cell(each) for each in row) for row in rows]
    if not lines:
        return ""
    head = [" | ".join(titles), "|".join("---" for _ in titles)]
    return "\n".join([f"| {head[0]} |", f"|{head[1]}|", *(f"| {line} |" for line in lines)])


def cell(text: str) -> str:
    """On one line, with what ends a cell escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]


def code(text: str) -> str:
    """As code; empty stays empty."""
    return f"`{text}`" if text else ""


def wrapped(words: Iterable[str], first: str, indent: str) -> str:
    """Words after ``first``, as many on a line as fit; what follows is indented."""
    lines = [first]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > COLUMNS_MAX:
            lines.append(indent + word)
        else:
            lines[-1] += " " + word
    return "\n".join(lines)


def page(parts: Iterable[str]) -> str:
    """Parts with an empty line between; those that are empty left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
