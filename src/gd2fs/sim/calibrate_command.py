"""Calibrate command: `gd2fs sim calibrate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gd2fs.outputs import check_outputs, writing
from gd2fs.sim.calibration import Calibration, calibrate, read_run
from gd2fs.sim.progress import table_console

HELP = {"help_option_names": ["-h", "--help"]}

calibrate_app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, context_settings=HELP
)


def calibrate_with(arguments: Sequence[str]) -> int:
    """Run `gd2fs sim calibrate` with these words; the exit status."""
    words = list(arguments)
    return calibrate_app(args=words, prog_name="gd2fs sim calibrate", standalone_mode=False) or 0


@calibrate_app.command("calibrate")
def _calibrate(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="Of `gd2fs bench topology --json`")
    ],
    rates: Annotated[
        Path | None, typer.Option("--rates", metavar="FILE", help="Write them, for `--engine`")
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Of a page, if the result does not say")
    ] = None,
) -> None:
    """Find the rates of an engine that was measured, and replay that run with them."""
    check_outputs({"rates": rates}, {"the result": result})
    found = calibrate(read_run(result), block_tokens=block_tokens)
    if rates is not None:
        with writing(rates):
            rates.write_text(json.dumps(found.as_dict(), indent=1) + "\n", encoding="utf-8")
    _print(found)


def _print(found: Calibration) -> None:
    table = Table()
    for heading in ("", "measured", "simulated", "simulated/measured"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for arm, check in found.checks.items():
        for label, measured, simulated in (
            ("first token after, mean, s", check.ttft_s, check.simulated_ttft_s),
            ("next token after, mean, s", check.gap_s, check.simulated_gap_s),
        ):
            row = (f"{measured:.4g}", f"{simulated:.4g}", f"{simulated / measured:.3f}")
            table.add_row(f"{arm}: {label}", *row)
        tokens = (check.reused_tokens, check.simulated_reused_tokens)
        table.add_row(f"{arm}: prompt tokens found", *(f"{each:,}" for each in tokens), "")
    table_console().print(table)
