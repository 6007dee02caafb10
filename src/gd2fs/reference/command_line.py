"""Command line: a section for every command: usage, options, and the text that lies beside.

What options do stands in their help, or, where a terminal has no room for it, in
docs/reference/text, `COMMAND.options.md`. What is to be said beyond that lies there in
`COMMAND.md`; `index.md` begins the page.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from gd2fs.cli.access import OPTIONS
from gd2fs.cli.app import make_app
from gd2fs.reference import markdown

TEXTS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "text"
NOTICE = (
    "<!-- Made by `make reference`: change the help of the commands, or docs/reference/text. -->"
)
VARIABLE = re.compile(r"\(or (GD2FS_\w+)")
OPTION = re.compile(r"^- `(--[a-z-]+)`: (.+)$", re.MULTILINE)
WIDE = {  # they read their own options
    "demo": "gd2fs.bench.commands",
    "bench": "gd2fs.bench.commands",
    "sim": "gd2fs.sim.commands",
}
CLUSTER = {"--cp", "--cluster", "--transport"}
TOLD = CLUSTER | {f"--{name.replace('_', '-')}" for name in OPTIONS}  # once, at the top
PLAIN = {"--json"}  # says itself


def page() -> str:
    """The whole page."""
    commands = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]
    parts = [text_of("index")]
    for name, command in commands.items():
        parts += _command(name, command) if name not in WIDE else _wide(name)
    return markdown.page([NOTICE, *parts])


def text_of(name: str) -> str:
    """What lies beside; empty without a file."""
    path = TEXTS / f"{name.replace(' ', '-')}.md"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _wide(name: str) -> Iterator[str]:
    """Of commands whose own app is loaded when they are called."""
    module = importlib.import_module(WIDE[name])
    yield from _command(name, typer.main.get_command(getattr(module, f"{name}_app")))
    for child, app_of_child in getattr(module, "apps_below", lambda: {})().items():
        yield from _command(f"{name} {child}", typer.main.get_command(app_of_child), 3)


def _command(name: str, command: Any, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {name}"
    children = getattr(command, "commands", {})
    if not children or (command.params and _shown(command)):
        yield f"```text\n{usage(name, command)}\n```"
    yield _plain(command.help or "")
    yield _arguments(name, command)
    yield text_of(name)
    for child, each in children.items():
        if not each.hidden:
            yield from _command(f"{name} {child}", each, level + 1)


def usage(name: str, command: Any) -> str:
    """`gd2fs NAME ARGUMENT [--option VALUE]`."""
    first = f"gd2fs {name}"
    words = [_word(each) for each in _shown(command) if each.param_type_name == "argument"]
    words += [_word(each) for each in _shown(command) if each.param_type_name == "option"]
    return markdown.wrapped(words, first, " " * (len(first) + 1))


def _word(parameter: Any) -> str:
    metavar = _metavar(parameter)
    if parameter.param_type_name == "argument":
        return metavar if parameter.required else f"[{metavar.strip('[]')}]"
    text = f"{_name(parameter)} {metavar}".strip()
    return text if parameter.required else f"[{text}]"


def meanings_of(name: str) -> dict[str, str]:
    """Longer texts of options, by their names: lines of ``- `--option`: text``."""
    return dict(OPTION.findall(text_of(f"{name}.options")))


def _arguments(name: str, command: Any) -> str:
    longer = meanings_of(name)
    rows = [
        (
            markdown.code(f"{_name(each)} {_metavar(each)}".strip()),
            _default(each),
            markdown.sentence(longer.get(each.opts[0]) or _plain(each.help or "")),
        )
        for each in _shown(command)
        if not PLAIN & set(each.opts)
    ]
    return markdown.table(("", "default", "meaning"), rows)


def _shown(command: Any) -> list[Any]:
    """Of commands that ask a cluster without what all of them take."""
    told = {"--help"} | (TOLD if _asks(command) else set())
    return [each for each in command.params if not each.hidden and not told & set(each.opts)]


def _asks(command: Any) -> bool:
    return {word for each in command.params for word in each.opts} >= CLUSTER


def _name(parameter: Any) -> str:
    return "" if parameter.param_type_name == "argument" else ", ".join(parameter.opts)


def _metavar(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    return _plain(parameter.metavar or parameter.type.name.upper())


def _default(parameter: Any) -> str:
    value = parameter.default
    variable = VARIABLE.search(parameter.help or "")
    if value is None and variable:
        return markdown.code(variable[1])
    if value is None or callable(value) or value is False or str(value) == "()":
        return "" if not parameter.required else "required"
    return markdown.code(f"{value:g}" if isinstance(value, float) else str(value))


def _plain(text: str) -> str:
    """Without the marks of rich, and of typer: `\\[` is `[`."""
    return text.replace("\\[", "[").replace("\b", "").strip()
