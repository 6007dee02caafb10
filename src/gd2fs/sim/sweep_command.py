"""Sweep command: `gd2fs sim sweep`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gd2fs.errors import InvalidRequest
from gd2fs.outputs import check_outputs, writing
from gd2fs.sim.commands import BlockTokens, EngineOption, Prices, Seed, TraceArgument, Workers
from gd2fs.sim.cost import prices_of
from gd2fs.sim.engine import engine_of
from gd2fs.sim.inputs import inputs_of
from gd2fs.sim.progress import bar_of, table_console
from gd2fs.sim.report import value_of
from gd2fs.sim.setting import Setting, option_of
from gd2fs.sim.sweep import JOBS_MAX, Sweep, is_unlimited, pareto, run_sweep

HELP = {"help_option_names": ["-h", "--help"]}
LISTS = {  # option: its axis, and what one value is
    "topology": str,
    "instances": int,
    "balancer": str,
    "cache_blocks": int,
    "disk_blocks": int,
    "device_blocks": int,
    "nodes": int,
    "policy": str,
    "replicas": int,
    "node_gbit": float,
    "engine_gbit": float,
}

Measure = tuple[str, tuple[str, ...]]  # its name, and where it stands in the figures

LIST_HINT = "give a list, as `2,4,8`, or a range that goes up, as `2..64`"
NOT_COMPARED = "unlimited caches have no cost, and are not among the best"

sweep_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)


def _list(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text)


Results = Annotated[
    Path,
    typer.Option("--results", metavar="FILE", help="JSON lines; what is there is not done again"),
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the Pareto chart")
]
Jobs = Annotated[int, typer.Option(metavar="N", help="Processes; 0: as many as cores")]
Goal = Annotated[
    str, typer.Option("--latency", metavar="NAME", help="Of TTFT: mean, p50, p95, p99 or max")
]


def sweep(arguments: Sequence[str]) -> int:
    """Run `gd2fs sim sweep` with these words; the exit status."""
    words = list(arguments)
    return sweep_app(args=words, prog_name="gd2fs sim sweep", standalone_mode=False) or 0


@sweep_app.command("sweep")
def _sweep(
    trace: TraceArgument,
    results: Results,
    topology: Annotated[str, _list("LIST", "As for `gd2fs sim`: each option a list")] = (
        "private,shared"
    ),
    instances: Annotated[str, _list("LIST", "2,4,8, or 2..64: doubled")] = "4",
    balancer: Annotated[str, _list("LIST", "Balancers")] = "round-robin",
    cache_blocks: Annotated[str, _list("LIST", "Cache of each instance")] = "0",
    disk_blocks: Annotated[str, _list("LIST", "NVMe of GD2FS, for each instance")] = "0",
    device_blocks: Annotated[str, _list("LIST", "Cache on each device")] = "0",
    nodes: Annotated[str, _list("LIST", "Nodes of GD2FS")] = "1",
    policy: Annotated[str, _list("LIST", "Policies of eviction")] = "lru",
    replicas: Annotated[str, _list("LIST", "Copies")] = "1",
    node_nic: Annotated[str, _list("LIST", "Of a node, Gbit/s")] = "100",
    engine_nic: Annotated[str, _list("LIST", "Of an instance, Gbit/s")] = "100",
    engine: EngineOption = "none",
    workers: Workers = 0,
    prices: Prices = None,
    latency: Goal = "p95",
    block_tokens: BlockTokens = None,
    seed: Seed = 1,
    jobs: Jobs = 0,
    html: Html = None,
) -> None:
    """Replay a trace with every combination of settings, and show which are worth their cost.

    What is known is kept in `--results` at once: a sweep that was broken off goes on where it was.
    """
    if latency not in ("mean", "p50", "p95", "p99", "max"):
        raise InvalidRequest(f"`--latency` is `{latency}`", hint="mean, p50, p95, p99 or max")
    if not 0 <= jobs <= JOBS_MAX:
        hint = f"give 1 to {JOBS_MAX}; 0: as many as cores"
        raise InvalidRequest(f"`--jobs` is {jobs}", hint=hint)
    check_outputs({"results": results, "html": html}, inputs_of(trace, engine, prices))
    texts = {
        "topology": topology,
        "instances": instances,
        "balancer": balancer,
        "cache_blocks": cache_blocks,
        "disk_blocks": disk_blocks,
        "device_blocks": device_blocks,
        "nodes": nodes,
        "policy": policy,
        "replicas": replicas,
        "node_gbit": node_nic,
        "engine_gbit": engine_nic,
    }
    axes = {name: values_of(name, text) for name, text in texts.items()}
    base = Setting(topology="shared", engine=engine_of(engine), workers=workers, seed=seed)
    wanted = Sweep(trace, block_tokens, base, axes, None if prices is None else prices_of(prices))
    count = len(wanted.points())
    with bar_of("sweep", count, least=2) as report:
        runs = run_sweep(wanted, results, jobs=jobs or os.cpu_count() or 1, report=report)
    _print(runs, wanted, latency)
    if html is not None:
        from gd2fs.sim.sweep_page import write_sweep_page

        with writing(html):
            write_sweep_page(html, runs, varied_of(wanted), measures_of(runs, latency))


def values_of(name: str, text: str) -> list[Any]:
    """Of a list as `2,4,8`, or as `2..64`, which doubles. Raises InvalidRequest."""
    kind: Callable[[str], Any] = LISTS[name]
    try:
        found: list[Any] = []
        for part in text.split(","):
            low, dots, high = part.partition("..")
            found += _doubled(kind(low), kind(high)) if dots else [kind(part)]
        return list(dict.fromkeys(found))
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"`{option_of(name)}` is `{text}`", hint=LIST_HINT) from error


def _doubled(low: Any, high: Any) -> list[Any]:
    if isinstance(low, str) or not 0 < low <= high < math.inf:
        raise ValueError
    values = []
    while low <= high:
        values.append(low)
        low *= 2
    return values


def varied_of(wanted: Sweep) -> list[str]:
    """Axes with several values."""
    return [name for name, values in wanted.axes.items() if len(values) > 1]


def measures_of(runs: Sequence[dict[str, Any]], latency: str) -> tuple[Measure, Measure]:
    """What is held against what, both the less the better: their names, and where they stand."""
    cost: Measure = ("cost per million tokens", ("cost", "per_million_tokens"))
    if all(value_of(run, cost[1]) is None for run in runs):
        cost = ("prompt tokens computed", ("prefill_tokens",))
    time: Measure = (f"first token after, {latency}, s", ("ttft_s", latency))
    if all(value_of(run, time[1]) is None for run in runs):
        time = ("blocks of cache, all together", ("cache_blocks",))
    return cost, time


def _print(runs: Sequence[dict[str, Any]], wanted: Sweep, latency: str) -> None:
    measures = measures_of(runs, latency)
    best = set(best_of(runs, measures))
    varied = varied_of(wanted)
    table = Table(caption=note_of(runs) or None)
    for name in varied:
        table.add_column(name.replace("_", " "), justify="right")
    for heading in ("blocks found", *(name for name, _ in measures), "best"):
        table.add_column(heading, justify="right")
    for at, run in enumerate(runs):
        table.add_row(*cells_of(run, varied, measures), "*" if at in best else "")
    table_console().print(table)


def note_of(runs: Sequence[dict[str, Any]]) -> str:
    """What to say below a table of these runs; empty when there is nothing."""
    return NOT_COMPARED if any(is_unlimited(run) for run in runs) else ""


def cells_of(run: dict[str, Any], varied: Sequence[str], measures: Any) -> tuple[str, ...]:
    """Of a table: what is varied, how much was found, and where the run lies in the chart."""
    setting = run["setting"]
    is_size = {name: name == "cache_blocks" and is_unlimited(run) for name in varied}
    return (
        *("unlimited" if is_size[name] else str(setting[name]) for name in varied),
        f"{run['block_hit_rate']:.1%}",
        *("" if value is None else f"{value:,.4g}" for value in place_of(run, measures)),
    )


def place_of(run: dict[str, Any], measures: Any) -> tuple[float | None, float | None]:
    """Where a run lies in the chart; None: it has no such measure."""
    setting = run["setting"]
    blocks = setting["instances"] * (setting["cache_blocks"] + setting["disk_blocks"])
    known = run if is_unlimited(run) else run | {"cache_blocks": blocks}
    first, second = (value_of(known, path) for _, path in measures)
    return first, second


def best_of(runs: Sequence[dict[str, Any]], measures: Any) -> list[int]:
    """Indexes of runs that no other beats in both measures. Unlimited caches are not compared."""
    at_points = [
        (at, (first, second))
        for at, run in enumerate(runs)
        for first, second in [place_of(run, measures)]
        if first is not None and second is not None and not is_unlimited(run)
    ]
    return [at_points[index][0] for index in pareto([point for _, point in at_points])]
