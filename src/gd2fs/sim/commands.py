"""Commands: `gd2fs sim` and `gd2fs sim sweep`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gd2fs.cli.output import print_json, print_warning
from gd2fs.errors import InvalidRequest
from gd2fs.outputs import check_outputs, writing
from gd2fs.sim.cost import check_priced, cost_of, prices_of
from gd2fs.sim.engine import PRESETS, engine_of
from gd2fs.sim.figures import check_finite, figures_of
from gd2fs.sim.fleet import BALANCERS, POLICIES, TOPOLOGIES
from gd2fs.sim.goal import Goal, check_timed, rate_at
from gd2fs.sim.inputs import inputs_of
from gd2fs.sim.playing import Played, play
from gd2fs.sim.progress import bar_of, opened_trace, table_console
from gd2fs.sim.report import print_report, title_of
from gd2fs.sim.setting import BOTH, Setting
from gd2fs.sim.tide import elasticity_of, tide_of

HELP = {"help_option_names": ["-h", "--help"]}

STDIN = "/dev/stdin"  # a file like others, whether it is one or a pipe


def _named(trace: str) -> str:
    return STDIN if trace == "-" else trace


TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="A file of JSON lines (-: stdin), or made:requests=N,seed=N,... (see the guide)",
        callback=_named,
    ),
]
Topology = Annotated[
    str, typer.Option(metavar="NAME", help=f"{', '.join((*TOPOLOGIES, BOTH))}: what is compared")
]
Instances = Annotated[int, typer.Option(metavar="N", help="Engines")]
Balancer = Annotated[str, typer.Option(metavar="NAME", help=", ".join(BALANCERS))]
CacheBlocks = Annotated[
    int,
    typer.Option(metavar="B", help="Cache of each instance; GD2FS has those of all; 0: unlimited"),
]
DiskBlocks = Annotated[
    int, typer.Option(metavar="B", help="NVMe of GD2FS, for each instance; 0: none")
]
DeviceBlocks = Annotated[
    int, typer.Option(metavar="B", help="Cache on each engine's device, in both topologies")
]
Nodes = Annotated[int, typer.Option(metavar="N", help="Nodes that the cache of GD2FS lies on")]
Policy = Annotated[str, typer.Option(metavar="NAME", help=f"Of eviction: {', '.join(POLICIES)}")]
Replicas = Annotated[int, typer.Option(metavar="N", help="Copies of everything in GD2FS")]
NodeNic = Annotated[float, typer.Option(metavar="GBIT", help="NICs of a node, Gbit/s")]
EngineNic = Annotated[float, typer.Option(metavar="GBIT", help="NICs of an instance, Gbit/s")]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE",
        help=f"Rates of an instance: {', '.join(PRESETS)}, a JSON file; none: no times",
    ),
]
Workers = Annotated[
    int,
    typer.Option(metavar="N", help="Requests at a time, instead of the trace's times; 0: those"),
]
KillNode = Annotated[
    list[str] | None,
    typer.Option(metavar="SECONDS:NODE", help="Let a node die; may be given several times"),
]
GoalOption = Annotated[
    float | None,
    typer.Option(
        "--goal", metavar="SECONDS", help="Find how many requests a second have P95 of TTFT within"
    ),
]
Elastic = Annotated[
    float | None,
    typer.Option(metavar="RATE", help="Instances follow the load: each takes RATE requests/s"),
]
Prices = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Prices as JSON: adds cost per million tokens")
]
BlockTokens = Annotated[
    int | None,
    typer.Option(metavar="N", help="Tokens of a block, if others than the form's"),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Of the balancer's choices")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there; -: stdout")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts there")
]

sim_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)


def sim(arguments: Sequence[str]) -> int:
    """Run `gd2fs sim` with these words; the exit status."""
    if arguments[:1] == ["sweep"]:
        from gd2fs.sim.sweep_command import sweep

        return sweep(arguments[1:])
    if arguments[:1] == ["calibrate"]:
        from gd2fs.sim.calibrate_command import calibrate_with

        return calibrate_with(arguments[1:])
    if arguments[:1] == ["curve"]:
        from gd2fs.sim.curve_command import curve_with

        return curve_with(arguments[1:])
    return sim_app(args=list(arguments), prog_name="gd2fs sim", standalone_mode=False) or 0


@sim_app.command("sim")
def _sim(
    trace: TraceArgument,
    topology: Topology = BOTH,
    instances: Instances = 4,
    balancer: Balancer = "round-robin",
    cache_blocks: CacheBlocks = 0,
    disk_blocks: DiskBlocks = 0,
    device_blocks: DeviceBlocks = 0,
    nodes: Nodes = 1,
    policy: Policy = "lru",
    replicas: Replicas = 1,
    node_nic: NodeNic = 100.0,
    engine_nic: EngineNic = 100.0,
    engine: EngineOption = "none",
    workers: Workers = 0,
    kill_node: KillNode = None,
    goal: GoalOption = None,
    elastic: Elastic = None,
    prices: Prices = None,
    block_tokens: BlockTokens = None,
    seed: Seed = 1,
    as_json: Json = None,
    html: Html = None,
) -> None:
    """Replay a trace: what would be found cached, and how quick it would be.

    Compares private caches with GD2FS, which has as many blocks as all of them. `gd2fs sim sweep`
    does so over many settings, `gd2fs sim curve` tells what caches of all sizes find, and
    `gd2fs sim calibrate` finds the rates of an engine.
    """
    check_outputs({"json": as_json, "html": html}, inputs_of(trace, engine, prices))
    setting = Setting(
        topology="shared" if topology == BOTH else topology,
        instances=instances,
        balancer=balancer,
        cache_blocks=cache_blocks,
        disk_blocks=disk_blocks,
        device_blocks=device_blocks,
        nodes=nodes,
        policy=policy,
        replicas=replicas,
        node_gbit=node_nic,
        engine_gbit=engine_nic,
        engine=engine_of(engine),
        workers=workers,
        kills=kill_node or (),
        seed=seed,
    )
    if goal is not None and setting.engine.is_instant:
        raise InvalidRequest("`--goal` is about time", hint="say what engines do: `--engine`")
    if goal is not None:
        check_timed(workers)
    names = TOPOLOGIES if topology == BOTH else (topology,)
    settings = [replace(setting, topology=name) for name in names]
    _run(_Wanted(trace, block_tokens, goal, elastic, prices, as_json, html), settings)


class _Wanted:
    """What is to be read and written."""

    def __init__(
        self,
        trace: str,
        block_tokens: int | None,
        goal: float | None,
        elastic: float | None,
        prices: Path | None,
        as_json: Path | None,
        html: Path | None,
    ) -> None:
        self.trace, self.block_tokens = trace, block_tokens
        self.goal = None if goal is None else Goal(goal)
        self.elastic = elastic
        self.prices = None if prices is None else prices_of(prices)
        self.as_json, self.html = as_json, html


def _run(wanted: _Wanted, settings: Sequence[Setting]) -> None:
    for setting in settings:
        setting.fleet()  # what cannot be is said before long work
        if wanted.prices is not None:
            check_priced(setting, wanted.prices)
    trace = opened_trace(wanted.trace, wanted.block_tokens)
    facts = trace.facts()
    if wanted.elastic is not None:
        tide = tide_of(trace, wanted.elastic, settings[0].instances)
        settings = [replace(setting, tide=tide) for setting in settings]
    played: list[Played] = []
    runs: list[dict[str, Any]] = []
    for setting in settings:
        with bar_of(setting.topology, trace.requests) as report:
            played.append(play(trace, setting.fleet(), report=report))
        runs.append(_figures(wanted, setting, played[-1], facts))
    if wanted.as_json != Path("-"):
        print_report(title_of(facts, runs[0]), runs, table_console())
    _warn(wanted, runs, played)
    _write(wanted, facts, runs, played)


def _warn(wanted: _Wanted, runs: Sequence[dict[str, Any]], played: Sequence[Played]) -> None:
    """Say what the figures do not have."""
    for run in runs:
        if run.get("goal_is_at_least"):
            print_warning(f"{run['topology']}: no rate misses the goal, the trace is too short")
    if wanted.prices is not None and not runs[-1]["setting"]["cache_blocks"]:
        print_warning("unlimited caches have no price: give `--cache-blocks`")
    for each in played:
        over_s = max(each.trace.span_s, each.counts["ended_s"])
        for at_s, node in each.fleet.store.deaths if each.fleet.store else ():
            if at_s > over_s:
                print_warning(f"node {node} dies at {at_s:g} s, after all is over ({over_s:.0f} s)")


def _figures(
    wanted: _Wanted, setting: Setting, played: Played, facts: dict[str, Any]
) -> dict[str, Any]:
    figures = figures_of(played)
    if wanted.goal is not None:
        reached = rate_at(played.trace, played.fleet, wanted.goal)
        figures["goal_s"] = wanted.goal.seconds
        figures["requests_per_s_at_goal"] = reached.requests_per_s
        figures["goal_is_at_least"] = reached.is_at_least
    if setting.tide:
        figures["elasticity"] = elasticity_of(
            setting.tide, setting.instances, played.trace.span_s, setting.engine
        )
    if wanted.prices is not None:
        figures["cost"] = cost_of(figures, setting, facts, wanted.prices)
    figures["setting"] = setting.facts()
    return figures


def _write(
    wanted: _Wanted, facts: dict[str, Any], runs: list[dict[str, Any]], played: list[Played]
) -> None:
    result = dict(runs[-1]) | {"trace": facts}
    if len(runs) > 1:
        result = {"block_hit_rate": runs[-1]["block_hit_rate"], "trace": facts}
        result |= {run["topology"]: run for run in runs}
    check_finite(result)
    if wanted.as_json == Path("-"):
        print_json(result)
    elif wanted.as_json is not None:
        with writing(wanted.as_json):
            wanted.as_json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if wanted.html is not None:
        from gd2fs.sim.page import write_page

        with writing(wanted.html):
            write_page(wanted.html, facts, runs, played)
        print(f"wrote {wanted.html}", file=sys.stderr)


def apps_below() -> dict[str, typer.Typer]:
    """Commands that begin with `gd2fs sim` and a word of their own."""
    from gd2fs.sim.calibrate_command import calibrate_app
    from gd2fs.sim.curve_command import curve_app
    from gd2fs.sim.sweep_command import sweep_app

    return {"sweep": sweep_app, "curve": curve_app, "calibrate": calibrate_app}
