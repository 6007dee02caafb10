"""Commands: `gd2fs bench tls`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gd2fs.bench.board import Board
from gd2fs.bench.io.commands import write_json
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.options import check_results
from gd2fs.bench.tls.run import CIPHERS, RATIO_TARGET, Outcome, Settings, run_tls
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

FILE_BYTES_MIN = 1 << 20

File = Annotated[str, typer.Option(metavar="SIZE", help="Of the file that is read and written")]
Streams = Annotated[int, typer.Option(metavar="N", min=1, max=8, help="Connections, a thread each")]
Threads = Annotated[int, typer.Option(metavar="N", min=1, max=8, help="Of a node")]
Arena = Annotated[str, typer.Option(metavar="KIND", help="As `gd2fs serve --arena`")]
Rounds = Annotated[int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="Rounds")]
Seconds = Annotated[float, typer.Option(metavar="S", min=0.01, max=60, help="Of each part")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("tls")(tls)


def tls(
    file: File = "64MiB",
    streams: Streams = 2,
    threads: Threads = 2,
    arena: Arena = "auto",
    rounds: Rounds = 9,
    seconds: Seconds = 1.0,
    json_file: Json = None,
) -> None:
    """Read a file under TLS 1.3, in turn with what OpenSSL alone seals on one core of this machine.

    Needs the `openssl` command, for certificates.
    """
    file_bytes = parse_bytes(file)
    if file_bytes < FILE_BYTES_MIN:
        raise InvalidRequest(f"`--file` is {file}", hint="1MiB or more")
    check_results({"json": json_file})
    machine = machine_facts()
    settings = Settings(file_bytes, streams, threads, arena, rounds, seconds)
    with Board() as board:
        outcome = run_tls(settings, board)
    write_json(json_file, {"tls": outcome.as_dict()}, machine)
    for line in report(outcome):
        typer.echo(line)


def report(outcome: Outcome) -> list[str]:
    """The lines for people."""
    settings = outcome.settings
    mark = "✓" if outcome.ratio >= RATIO_TARGET else "✗"
    size = f"{settings.file_bytes / 2**20:g} MiB"
    ratios = " ".join(f"{each.ratio:.2f}" for each in outcome.rounds)
    sealed = [
        f"OpenSSL, {cipher:<16} {outcome.sealed(cipher) / 1e9:8.2f} GB/s   16 KiB records, one core"
        for cipher in CIPHERS
    ]
    return [
        f"{size}, {settings.streams} streams; medians of {len(outcome.rounds)} rounds in turn",
        *sealed,
        f"read under TLS            {outcome.median_of('read') / 1e9:8.2f} GB/s"
        f"   ratio {outcome.ratio:.2f}   target {RATIO_TARGET:.2f} {mark}   ({ratios})",
        f"read without              {outcome.median_of('plain_read') / 1e9:8.2f} GB/s",
        f"write under TLS           {outcome.median_of('written') / 1e9:8.2f} GB/s",
        f"handshakes                {outcome.handshakes_per_s:8.0f} a second, one at a time",
    ]
