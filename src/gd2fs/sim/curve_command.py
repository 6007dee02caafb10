"""Curve command: `gd2fs sim curve`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from gd2fs.cli.output import print_json
from gd2fs.cli.target import JsonOption
from gd2fs.errors import InvalidRequest
from gd2fs.sim.commands import BlockTokens, TraceArgument
from gd2fs.sim.curve import curve_of
from gd2fs.sim.progress import opened_trace, table_console

HELP = {"help_option_names": ["-h", "--help"]}
SAMPLES_LEAST, SAMPLES_MOST = 100, 100_000_000

curve_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)


def curve_with(arguments: Sequence[str]) -> int:
    """Run `gd2fs sim curve` with these words; the exit status."""
    words = list(arguments)
    return curve_app(args=words, prog_name="gd2fs sim curve", standalone_mode=False) or 0


@curve_app.command("curve")
def _curve(
    trace: TraceArgument,
    samples: Annotated[
        int, typer.Option(metavar="N", help="Blocks that are followed; with more, a sample of them")
    ] = 200_000,
    block_tokens: BlockTokens = None,
    as_json: JsonOption = False,
) -> None:
    """Work out in one pass what LRU caches of all sizes would find, shared by all instances."""
    if not SAMPLES_LEAST <= samples <= SAMPLES_MOST:
        raise InvalidRequest(
            f"`--samples` is {samples}", hint=f"give {SAMPLES_LEAST} to {SAMPLES_MOST}"
        )
    curve = curve_of(opened_trace(trace, block_tokens), samples=samples)
    if as_json:
        print_json(asdict(curve))
        return
    table = Table()
    for heading in ("blocks of cache", "blocks found", "give or take"):
        table.add_column(heading, justify="right")
    for point in curve.points:
        error = f"{100 * point.error:.2f}" if point.error else ""
        table.add_row(f"{point.blocks:,}", f"{point.hit_rate:.1%}", error)
    table_console().print(table)
