"""The reference is what the code makes of it, and its links lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from gd2fs.cli.app import app
from gd2fs.reference import PAGES, command_line, error_list
from gd2fs.reference.setting_list import ENVIRONMENT, variables_read

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_makes_of_it(name):
    written = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")

    assert written == PAGES[name](), "run `make reference`"


def test_every_text_beside_is_of_a_command():
    commands = typer.main.get_command(app).commands
    names = {"index", *commands}
    names |= {f"{name}-{child}" for name in commands for child in children(commands[name])}
    names |= {f"bench-{child}" for child in (*bench_commands(), "tls")}
    texts = {path.name.removesuffix(".md") for path in command_line.TEXTS.iterdir()}

    assert {text.removesuffix(".options") for text in texts} <= names


def test_every_line_of_longer_texts_is_read():
    commands = typer.main.get_command(app).commands
    for path in command_line.TEXTS.glob("*.options.md"):
        name = path.name.removesuffix(".options.md")
        longer = command_line.meanings_of(name)
        assert len(longer) == len(path.read_text(encoding="utf-8").splitlines()), name
        assert name in commands


def children(command):
    return getattr(command, "commands", {})


def bench_commands():
    from gd2fs.bench.commands import bench_app

    return children(typer.main.get_command(bench_app))


def test_every_variable_that_is_read_is_described():
    assert variables_read() <= set(ENVIRONMENT)


def test_messages_are_read_out_of_the_source():
    text = """
raise InvalidRequest(
    f"`{size}` is not {6 * 7} " "bytes", hint="give " + more
)
raise Unavailable(text)
"""
    [raised] = error_list.raised_in(text, "m")

    assert raised == error_list.Raised("InvalidRequest", "`{size}` is not … bytes", "give …", "m")
