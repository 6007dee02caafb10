"""Options: those that several commands of `gd2fs bench` have, and what is checked before a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from gd2fs.errors import InvalidRequest
from gd2fs.outputs import STDOUT, check_outputs

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


def check_results(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path] | None = None
) -> None:
    """See before a run of minutes that what comes of it can be written.

    Args:
        outputs: By option, without its dashes; None: not wanted.
        inputs: Files that are read, by what they are.

    Raises:
        InvalidRequest: It cannot, or one is another one or an input.
    """
    for option, path in outputs.items():
        if path == STDOUT:
            raise InvalidRequest(
                f"`--{option}` is `-`", hint="name a file: tables go to the standard output"
            )
    check_outputs(outputs, inputs or {})
