"""Commands: `gd2fs bench disk`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gd2fs.bench.disk.run import RATIO_TARGET, SCAN_TARGET_S, Outcome, Settings, run_disk
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.options import check_results
from gd2fs.outputs import write_facts
from gd2fs.sizes import parse_bytes

Folder = Annotated[
    Path, typer.Option(metavar="FOLDER", help="On the file system to measure; left as it was")
]
Bytes = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="Of all records")]
Record = Annotated[str, typer.Option(metavar="SIZE", help="Of one record, and of fio's reads")]
Depth = Annotated[int, typer.Option(metavar="N", min=1, max=256, help="Reads in flight")]
Io = Annotated[str, typer.Option(metavar="KIND", help="auto, uring or threads; fio does the same")]
Arena = Annotated[str, typer.Option(metavar="KIND", help="As `gd2fs serve --arena`")]
Rounds = Annotated[int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="Rounds")]
Seconds = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="Of each reading")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("disk")(disk)


def disk(
    folder: Folder = Path(),
    total: Bytes = "2GiB",
    record: Record = "4MiB",
    depth: Depth = 16,
    io: Io = "auto",
    arena: Arena = "auto",
    rounds: Rounds = 7,
    seconds: Seconds = 2.0,
    json_file: Json = None,
) -> None:
    """Read records of the disk tier and fio's file by direct I/O in turn; then time a start.

    Needs fio, and room for three times `--bytes` and 4 GiB more.
    """
    check_results({"json": json_file})
    progress = Console(stderr=True, highlight=False)
    facts = machine_facts()
    outcome = run_disk(
        Settings(
            folder=folder,
            total_bytes=parse_bytes(total),
            record_bytes=parse_bytes(record),
            depth=depth,
            io=io,
            arena=arena,
            rounds=rounds,
            seconds=seconds,
        ),
        lambda text: progress.print(text, markup=False),
    )
    if json_file is not None:
        write_facts(json_file, {"machine": facts, "disk": outcome.as_dict()})
    for line in report(outcome):
        typer.echo(line)


def report(outcome: Outcome) -> list[str]:
    """The lines for people."""
    way = "io_uring" if outcome.is_uring else "threads"
    kind = "direct" if outcome.is_direct else "cached (this file system refuses direct I/O)"
    mark = "✓" if outcome.ratio >= RATIO_TARGET else "✗"
    scan_mark = "✓" if outcome.scan_s_per_tib <= SCAN_TARGET_S else "✗"
    pages = "huge pages" if outcome.is_huge else "small pages"
    fio = statistics.median(each.fio for each in outcome.rounds)
    verified = statistics.median(each.verified for each in outcome.rounds)
    plain = statistics.median(each.plain for each in outcome.rounds)
    ratios = " ".join(f"{each.verified / each.fio:.2f}" for each in outcome.rounds)
    return [
        f"{way}, {kind}; medians of {len(outcome.rounds)} rounds",
        f"fio, random reads         {fio / 1e9:8.2f} GB/s   into {pages}",
        f"records, verified         {verified / 1e9:8.2f} GB/s   ratio {outcome.ratio:.2f}"
        f"   target {RATIO_TARGET:.2f} {mark}   ({ratios})",
        f"records, unverified       {plain / 1e9:8.2f} GB/s   ratio {outcome.plain_ratio:.2f}",
        f"writing, with its flush   {outcome.written / 1e9:8.2f} GB/s",
        f"start: {outcome.scanned_records} records, {outcome.scanned_bytes / 2**30:.1f} GiB in"
        f" {outcome.scan_ms} ms; 1 TiB so would take {outcome.scan_s_per_tib:.0f} s"
        f"   target {SCAN_TARGET_S} s {scan_mark}",
    ]
