"""Bench: `demo`, `bench` and `sim`, whose code and needs are loaded only when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import typer

from gd2fs.cli.extras import needs

# The commands read their own options, `--help` too.
PASS_THROUGH = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("demo", context_settings=PASS_THROUGH)(demo)
    app.command("bench", context_settings=PASS_THROUGH)(bench)
    app.command("sim", context_settings=PASS_THROUGH)(sim)


def demo(context: typer.Context) -> int:
    """Watch real engines behind a random balancer: private caches, then a shared one."""
    return _run("gd2fs.bench.commands", "demo", context.args, extra="demo")


def bench(context: typer.Context) -> int:
    """Measure: the path of the bytes (`io`, `gil`, `soak`), and real engines (`topology`)."""
    return _run("gd2fs.bench.commands", "bench", context.args, extra="demo")


def sim(context: typer.Context) -> int:
    """Replay a trace: what private caches and GD2FS would find, and how quick it would be."""
    return _run("gd2fs.sim.commands", "sim", context.args, extra="sim")


def _run(module: str, command: str, arguments: Sequence[str], *, extra: str) -> int:
    with needs(extra):
        commands = importlib.import_module(module)
        return getattr(commands, command)(list(arguments)) or 0
