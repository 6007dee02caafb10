"""Plan: a calculator: a model and its users in; bytes, nodes and networks out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gd2fs.cli.output import print_json, whole_lines
from gd2fs.cli.target import JsonOption
from gd2fs.sizes import format_bytes, parse_bytes

if TYPE_CHECKING:
    from gd2fs.plan import Plan

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A known name, a checkpoint's config.json or folder, or layers=N,kv_heads=N,"
        "head_dim=N (layers=N,latent=N with MLA)",
    ),
]
UsersOption = Annotated[
    float, typer.Option(metavar="N", help="Conversations that go on at the same time")
]
TurnsOption = Annotated[float, typer.Option(metavar="N", help="Of one conversation")]
PromptOption = Annotated[float, typer.Option(metavar="N", help="New ones of a user's turn")]
AnswerOption = Annotated[float, typer.Option(metavar="N", help="Of an answer")]
SharedOption = Annotated[
    float, typer.Option(metavar="N", help="That every prompt begins with, alike for all")
]
IntervalOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="From one turn of a conversation to the next")
]
KeepOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long it is found after its last turn")
]
PeakOption = Annotated[
    float, typer.Option(metavar="N", help="The busiest minutes, in times of the mean")
]
LocalOption = Annotated[
    float, typer.Option(metavar="N", help="Of a history, found in the engine itself: 0 to 1")
]
DtypeOption = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="Of the cache: bfloat16, float16, float32, fp8, int8"),
]
ReplicasOption = Annotated[int, typer.Option(metavar="N", help="Copies of everything")]
MemoryOption = Annotated[str, typer.Option(metavar="SIZE", help="Arena of a node")]
NvmeOption = Annotated[str, typer.Option(metavar="SIZE", help="Disks of a node; 0: none")]
NodeNicOption = Annotated[float, typer.Option(metavar="GBIT", help="NICs of a node, Gbit/s")]
EnginesOption = Annotated[int, typer.Option(metavar="N", help="Instances")]
EngineNicOption = Annotated[
    float, typer.Option(metavar="GBIT", help="NICs of one instance, Gbit/s")
]
PrefillOption = Annotated[
    float, typer.Option(metavar="N", help="Tokens a second that one instance computes")
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("plan")(plan)


def plan(
    model: ModelArgument,
    users: UsersOption,
    turns: TurnsOption = 8,
    prompt_tokens: PromptOption = 400,
    answer_tokens: AnswerOption = 300,
    shared_tokens: SharedOption = 1000,
    interval: IntervalOption = 60.0,
    keep: KeepOption = 3600.0,
    peak: PeakOption = 2.0,
    local_share: LocalOption = 0.0,
    dtype: DtypeOption = None,
    replicas: ReplicasOption = 1,
    node_memory: MemoryOption = "64GiB",
    node_nvme: NvmeOption = "0",
    node_nic: NodeNicOption = 100,
    engines: EnginesOption = 4,
    engine_nic: EngineNicOption = 100,
    prefill: PrefillOption = 10_000,
    as_json: JsonOption = False,
) -> None:
    """Work out what a fleet needs: memory, nodes, NICs, and whether loading beats computing.

    All formulas are in docs/guides/sizing.md.
    """
    from gd2fs.plan import Demand, Machines, Plan, geometry_of

    made = Plan(
        geometry_of(model, dtype),
        Demand(
            users=users,
            turns=turns,
            prompt_tokens=prompt_tokens,
            answer_tokens=answer_tokens,
            shared_tokens=shared_tokens,
            interval_s=interval,
            keep_s=keep,
            peak=peak,
            local_share=local_share,
        ),
        Machines(
            memory_bytes=parse_bytes(node_memory),
            nvme_bytes=parse_bytes(node_nvme),
            nic_gbit=node_nic,
            replicas=replicas,
            engines=engines,
            engine_nic_gbit=engine_nic,
            prefill_tokens_per_s=prefill,
        ),
    )
    if as_json:
        print_json(_as_dict(made))
    else:
        _print(made)


def _as_dict(made: Plan) -> dict[str, Any]:
    from gd2fs.plan.advice import cautions, serve_flags, sglang_settings

    return {
        "model": made.geometry.name,
        "token_bytes": made.geometry.token_bytes,
        "session_tokens": made.demand.session_tokens,
        "session_bytes": round(made.session_bytes),
        "active_bytes": round(made.active_bytes),
        "ended_bytes": round(made.ended_bytes),
        "working_set_bytes": round(made.working_set_bytes),
        "turns_per_s": made.demand.turns_per_s,
        "history_tokens": made.demand.history_tokens,
        "read_bytes_per_s": round(made.read_bytes_per_s),
        "write_bytes_per_s": round(made.write_bytes_per_s),
        "nodes": made.nodes,
        "nodes_because": made.nodes_because,
        "nodes_for": {
            "memory": made.nodes_for_memory,
            "disk": made.nodes_for_disk,
            "network": made.nodes_for_network,
        },
        "node_gbit": made.node_gbit,
        "engine_gbit": made.engine_gbit,
        "disk_writes_per_day": made.disk_writes_per_day,
        "break_even_gbit": made.break_even_gbit,
        "load_gain": made.load_gain,
        "engines_with": made.engines_with,
        "engines_without": made.engines_without,
        "huge_pages": made.huge_pages,
        "serve_flags": serve_flags(made),
        "sglang_settings": sglang_settings(made),
        "cautions": list(cautions(made)),
    }


def _print(made: Plan) -> None:
    from gd2fs.plan.advice import cautions, serve_flags, sglang_settings

    with whole_lines() as console:
        table = Table.grid(padding=(0, 2))
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for name, value in _rows(made):
            table.add_row(Text(name, style="dim"), value)
        console.print(table)
        console.print(Text("\nevery node", style="bold"))
        console.print(
            f"  sysctl -w vm.nr_hugepages={made.huge_pages}", markup=False, soft_wrap=True
        )
        serve = shlex.join(["gd2fs", "serve", *serve_flags(made)])
        console.print(f"  {serve} --cluster NAME --name NAME …", markup=False, soft_wrap=True)
        for name, least in sglang_settings(made).items():
            console.print(f'  SGLang: "{name}": {least:g} or more', markup=False, soft_wrap=True)
        for text in cautions(made):
            console.print(Text.assemble(("\nnote: ", "bold yellow"), text))


def _rows(made: Plan) -> Iterator[tuple[str, str]]:
    demand, machines = made.demand, made.machines
    yield "a token", f"{format_bytes(made.geometry.token_bytes)} of cache"
    yield (
        "a conversation",
        f"{demand.session_tokens:,.0f} tokens, {format_bytes(made.session_bytes)}; with what all "
        f"share, its last prompt has {demand.longest_tokens:,.0f} tokens",
    )
    copies = f", {machines.replicas} copies" if machines.replicas > 1 else ""
    yield (
        "to be kept",
        f"{format_bytes(made.working_set_bytes)}{copies}: {format_bytes(made.active_bytes)} of "
        f"{demand.users:,.0f} that go on, {format_bytes(made.ended_bytes)} of those that ended",
    )
    yield (
        "turns",
        f"{demand.turns_per_s:,.3g} a second, with {demand.history_tokens:,.0f} tokens before",
    )
    yield (
        "at the peak",
        f"{_rate(made.read_bytes_per_s)} read, {_rate(made.write_bytes_per_s)} written",
    )
    reasons = f"memory {made.nodes_for_memory}, network {made.nodes_for_network}"
    if machines.nvme_bytes:
        reasons += f", disk {made.nodes_for_disk}"
    yield "nodes", f"{made.nodes}, for {made.nodes_because} ({reasons})"
    yield "NIC of a node", f"{made.node_gbit:.3g} of {machines.nic_gbit:g} Gbit/s"
    yield "NIC of an engine", f"{made.engine_gbit:.3g} of {machines.engine_nic_gbit:g} Gbit/s"
    if machines.nvme_bytes:
        yield "disks", f"written {made.disk_writes_per_day:.2g} times over each day"
    yield (
        "a history",
        f"{_time(made.history_load_s)} to load, {_time(made.history_compute_s)} to compute: "
        f"{made.load_gain:.3g} times as quick",
    )
    yield "break even", f"{made.break_even_gbit:.3g} Gbit/s for each engine"
    yield (
        "engines",
        f"{made.engines_with} to compute what is new, {made.engines_without} without GD2FS",
    )


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s"


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
