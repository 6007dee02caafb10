"""Options: those that several commands of `gd2fs bench` have, and what is checked before a run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from gd2fs.errors import InvalidRequest

Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]
Sessions = Annotated[int, typer.Option(metavar="N", help="Conversations")]
Rounds = Annotated[int, typer.Option(metavar="N", help="Turns of each, at most")]
First = Annotated[int, typer.Option(metavar="N", help="Tokens of a first prompt")]
Follow = Annotated[int, typer.Option(metavar="N", help="New tokens of a later prompt")]
Length = Annotated[int, typer.Option(metavar="N", help="Tokens of an answer")]
Concurrency = Annotated[int, typer.Option(metavar="N", help="Requests at the same time")]
Seed = Annotated[int, typer.Option(metavar="N", help="Of the texts and of the balancer")]
Instances = Annotated[int, typer.Option(metavar="N", help="Engines")]


def check_installed(name: str) -> None:
    """Raise InvalidRequest when a module is not there that comes with the extra `demo`."""
    if importlib.util.find_spec(name) is None:
        raise InvalidRequest(f"`{name}` is not installed", hint="run `pip install 'gd2fs[demo]'`")


def check_writable(file: Path | None) -> None:
    """Raise InvalidRequest when a result has no folder to go to."""
    if file is not None and not file.absolute().parent.is_dir():
        raise InvalidRequest(f"no folder for {file}", hint="make it, or name another file")
