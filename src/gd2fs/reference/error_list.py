"""Errors: every message that an exception brings, with what to do, from the source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gd2fs
from gd2fs import errors
from gd2fs.reference import markdown

ROOT = Path(gd2fs.__file__).resolve().parent
KINDS = ("InvalidRequest", "Unavailable", "Corrupt", "Closed")
OUTSIDE = ("testing", "bench", "reference")  # not of a store in use
HEAD = """<!-- Made by `make reference` of what is raised in src/gd2fs. -->

# Errors

In Python everything that is raised is a `gd2fs.GD2FSError`: one line that says what happened, and a
`hint` that says what to do. On the command line these are `error: …` and `hint: …`, and the exit
status says [what kind](cli.md#exit-status). A miss is no error. `{name}` and `…` stand for what is
put in; the core's own messages, of arenas and sockets, are made alike."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One `raise`: its message and hint, with `…` for what is put in."""

    kind: str
    message: str
    hint: str
    module: str


def page() -> str:
    """The whole page."""
    parts = [HEAD, markdown.table(("class", "meaning"), _classes())]
    found = sorted(
        set(all_raised()), key=lambda each: (each.message.lower(), each.hint, each.module)
    )
    for kind in KINDS:
        rows = [
            (each.message, each.hint, f"`{each.module}`") for each in found if each.kind == kind
        ]
        if rows:
            parts += [f"## {kind}", markdown.table(("message", "hint", "from"), rows)]
    return markdown.page(parts)


def _classes() -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        yield f"`{kind}`", inspect.getdoc(getattr(errors, kind)) or ""


def all_raised() -> Iterator[Raised]:
    """Of all modules of a store in use."""
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if inside.parts[0] not in OUTSIDE:
            yield from raised_in(
                path.read_text(encoding="utf-8"), ".".join(inside.with_suffix("").parts)
            )


def raised_in(text: str, module: str) -> Iterator[Raised]:
    """Of one module's source. What is made of variables alone says nothing here."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id in KINDS and node.args:
            hints = [each.value for each in node.keywords if each.arg == "hint"]
            message = template(node.args[0])
            if any(letter.isalpha() for letter in message):
                yield Raised(node.func.id, message, template(hints[0]) if hints else "", module)


def template(node: ast.expr) -> str:
    """A text with `…` for what is put in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(template(each) for each in node.values)
    if isinstance(node, ast.FormattedValue):
        name = ast.unparse(node.value)
        return f"{{{name}}}" if name.isidentifier() else "…"
    if isinstance(node, ast.BinOp):
        return template(node.left) + template(node.right)
    return "…"
