"""Commands: `gd2fs bench tier`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gd2fs.bench.board import Board
from gd2fs.bench.io.commands import wide_console, write_json
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.options import check_results
from gd2fs.bench.tier.plan import MIB, PAGE_BYTES, Settings, quick
from gd2fs.bench.tier.report import print_report
from gd2fs.bench.tier.run import run_tier
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

MEMORY_MIN = 64 * MIB

Folder = Annotated[
    Path, typer.Option(metavar="FOLDER", help="On the file system to measure; left as it was")
]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Of the node with three times as much on disk")
]
File = Annotated[str, typer.Option(metavar="SIZE", help="Of the file that is advised")]
Rate = Annotated[str, typer.Option(metavar="SIZE", help="Bytes a second to disk beside reads")]
Rounds = Annotated[int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="Rounds")]
Seconds = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="Of each reading")]
Arena = Annotated[str, typer.Option(metavar="KIND", help="As `gd2fs serve --arena`")]
IsQuick = Annotated[bool, typer.Option("--quick", help="Small sizes and two rounds: a trial")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("tier")(tier)


def tier(
    folder: Folder = Path(),
    memory: Memory = "256MiB",
    file: File = "1GiB",
    rate: Rate = "128MiB",
    rounds: Rounds = 7,
    seconds: Seconds = 2.0,
    arena: Arena = "auto",
    is_quick: IsQuick = False,
    json_file: Json = None,
) -> None:
    """Measure a node's memory and disk as one cache: cold reads beside fio, reads of memory beside
    writes to disk, advice, and a working set of three times the memory.

    Needs fio.
    """
    settings = Settings(
        folder=folder,
        memory_bytes=_size("--memory", memory),
        file_bytes=_size("--file", file),
        rate=parse_bytes(rate),
        rounds=rounds,
        seconds=seconds,
        arena=arena,
    )
    if settings.rate < MIB:
        raise InvalidRequest(f"`--rate` is {rate}", hint="1MiB or more")
    if is_quick:
        settings = quick(settings)
    check_results({"json": json_file})
    machine, start_s = machine_facts(), time.monotonic()
    with Board() as board:
        outcome = run_tier(settings, board)
    write_json(json_file, {"tier": outcome.as_dict()}, machine)
    console = wide_console()
    print_report(outcome, settings, console)
    console.print(f"done in {time.monotonic() - start_s:.0f} s")


def _size(option: str, text: str) -> int:
    size = parse_bytes(text)
    if size < MEMORY_MIN or size % PAGE_BYTES:
        raise InvalidRequest(
            f"`{option}` is {text}", hint=f"{MEMORY_MIN // MIB}MiB or more, in whole 4 MiB"
        )
    return size
