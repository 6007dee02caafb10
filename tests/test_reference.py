"""The reference is what the code makes of it, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from gd2fs.bench.commands import bench_app, demo_app
from gd2fs.bench.fleet.commands import fleet_app
from gd2fs.cli.app import make_app
from gd2fs.reference import PAGES, command_line, error_list
from gd2fs.reference.setting_list import ENVIRONMENT, variables_read
from gd2fs.sim.commands import apps_below, sim_app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEXTS = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
NO_VARIABLES = {  # of the C interface; and what builds with planted faults read
    *("GD2FS_STATUS_CLASS", "GD2FS_STATUS_CODE", "GD2FS_REQUESTS_MAX", "GD2FS_SGES_MAX"),
    *("GD2FS_PLANTED_FAULT", "GD2FS_PLANTED_FAULTS"),
}


def all_commands():
    """By their names; those that read their own options as they read them."""
    wide = {"bench": bench_app, "demo": demo_app, "sim": sim_app}
    commands = typer.main.get_command(make_app()).commands
    return {**commands, **{name: typer.main.get_command(each) for name, each in wide.items()}}


def children(command):
    return getattr(command, "commands", {})


def options_of(command) -> set[str]:
    """Of it, and of all below it; of `topology` those with engines too, and of `sim` its own."""
    own = {word for each in command.params for word in (*each.opts, *each.secondary_opts)}
    more = [FLEET] if command.name == "topology" and command is not FLEET else []
    more += BELOW_SIM if command.name == "sim" else []
    return own.union({"--help"}, *map(options_of, [*children(command).values(), *more]))


FLEET = typer.main.get_command(fleet_app)
BELOW_SIM = [typer.main.get_command(each) for each in apps_below().values()]
COMMANDS = all_commands()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_makes_of_it(name):
    written = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")

    assert written == PAGES[name](), "run `make reference`"


def test_every_text_beside_is_of_a_command():
    names = {"index", *COMMANDS}
    names |= {f"{name}-{child}" for name in COMMANDS for child in children(COMMANDS[name])}
    texts = {path.name.removesuffix(".md") for path in command_line.TEXTS.iterdir()}

    assert {text.removesuffix(".options") for text in texts} <= names


@pytest.mark.parametrize(
    "path", sorted(command_line.TEXTS.glob("*.options.md")), ids=lambda path: path.name
)
def test_longer_texts_are_all_read_and_of_options_that_there_are(path):
    name = path.name.removesuffix(".options.md")
    longer = command_line.meanings_of(name)

    assert len(longer) == len(path.read_text(encoding="utf-8").splitlines())
    assert set(longer) <= options_of(COMMANDS[name])


def test_the_variables_that_are_described_are_those_that_are_read():
    assert variables_read() == set(ENVIRONMENT)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_names_no_variable_that_there_is_not(path):
    named = set(re.findall(r"GD2FS_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8")))

    assert named <= {*ENVIRONMENT, *NO_VARIABLES}


@pytest.mark.parametrize(
    "path", sorted(command_line.TEXTS.glob("*.md")), ids=lambda path: path.name
)
def test_a_text_beside_names_no_option_that_there_is_not(path):
    named = set(OPTION.findall(path.read_text(encoding="utf-8")))

    assert named <= set().union({"--version"}, *map(options_of, COMMANDS.values()))


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_command_in_a_text_has_its_options(path):
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"\bgd2fs ([a-z][^`\n|;&#$]*)", text):
        words = line.split()
        command = COMMANDS.get(words[0])
        if command:
            while len(words) > 1 and words[1] in children(command):
                command, words = children(command)[words[1]], words[1:]
            assert set(OPTION.findall(line)) <= options_of(command), line


def test_what_is_looked_for_in_texts_is_found():
    text = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)

    assert len(set(OPTION.findall(text))) > 100 and "GD2FS_TOKEN_FILE" in text
    assert options_of(COMMANDS["bench"]) >= {"--kill-node", "--engine", "--a"}


def test_messages_are_read_out_of_the_source():
    text = """
raise InvalidRequest(
    f"`{size}` is not {6 * 7} " "bytes", hint="give " + more
)
raise Unavailable(text)
"""
    [raised] = error_list.raised_in(text, "m")

    assert raised == error_list.Raised("InvalidRequest", "`{size}` is not … bytes", "give …", "m")
