"""Commands: `gd2fs bench io`, `gil` and `soak`."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.io.gil import print_gil, run_gil
from gd2fs.bench.io.peer import find_peers
from gd2fs.bench.io.plan import CLIENTS_MAX, NODES_MAX, parse_choice, plan
from gd2fs.bench.io.report import as_json, print_report
from gd2fs.bench.io.run import Bench, Settings
from gd2fs.bench.io.soak import print_soak, run_soak
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.options import check_results
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.outputs import write_facts, writing
from gd2fs.sizes import parse_bytes

ROUNDS = 10
ROUNDS_MAX = 1000
QUICK_ROUNDS = 3
GIL_ROUNDS = 7
GIL_SECONDS = 1.0
WIDTH = 132
CHART_ENDS = (".png", ".svg", ".pdf")

Sizes = Annotated[str, typer.Option(metavar="SIZE,…", help="Of objects, 1 to 1GiB")]
Ops = Annotated[str, typer.Option(metavar="OP,…", help="read, write, view, get, put, exists")]
Batches = Annotated[str, typer.Option(metavar="COUNTxSIZE,…", help="Of get and put")]
Transports = Annotated[str, typer.Option(metavar="NAME,…", help="tcp, unix, shm")]
Streams = Annotated[str, typer.Option(metavar="N,…", help="Connections to each node, 1 to 8")]
Nodes = Annotated[str, typer.Option(metavar="N,…", help="Processes that serve, 1 to 8")]
Clients = Annotated[str, typer.Option(metavar="N,…", help="Processes that ask, 1 to 4")]
Verify = Annotated[str, typer.Option(metavar="on,off", help="Whether clients check and sum")]
Repeat = Annotated[int, typer.Option(metavar="N", help="Rounds of each case and its ceiling")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Of each node (else what is needed)")]
Arena = Annotated[str, typer.Option(metavar="KIND", help="As `gd2fs serve --arena`")]
IsQuick = Annotated[bool, typer.Option("--quick", help="Small sizes and few rounds: a trial")]
PeerWords = Annotated[
    list[str] | None,
    typer.Option(
        "--peer", metavar="STORE", help="redis://HOST:PORT or mooncake: does the same work"
    ),
]
Rounds = Annotated[int, typer.Option(metavar="N", min=1, max=ROUNDS_MAX, help="Comparisons")]
Seconds = Annotated[float, typer.Option(metavar="S", min=0.01, max=60, help="Of each of the two")]
Minutes = Annotated[float, typer.Option(metavar="M", min=0.01, max=10_000, help="How long")]
SoakClients = Annotated[int, typer.Option(metavar="N", min=1, max=CLIENTS_MAX, help="Processes")]
SoakNodes = Annotated[int, typer.Option(metavar="N", min=1, max=NODES_MAX, help="Nodes")]
SoakTransport = Annotated[str, typer.Option(metavar="NAME", help="tcp, unix or shm")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]
Chart = Annotated[
    Path | None, typer.Option("--chart", metavar="FILE.png", help="Draw it there (matplotlib)")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("io")(io)
    app.command("gil")(gil)
    app.command("soak")(soak)


def io(
    sizes: Sizes = "",
    ops: Ops = "",
    batches: Batches = "",
    transports: Transports = "",
    streams: Streams = "",
    nodes: Nodes = "",
    clients: Clients = "",
    verify: Verify = "",
    repeat: Repeat = ROUNDS,
    memory: Memory = "",
    arena: Arena = "auto",
    is_quick: IsQuick = False,
    peer: PeerWords = None,
    json_file: Json = None,
    chart: Chart = None,
) -> None:
    """Measure the path of the bytes, each case in turn with what bounds it on this machine.

    Without a choice, the rows of the design's table. With one, every combination of what was
    chosen. Nodes and clients are processes of their own, started here and ended here.
    """
    choice = parse_choice(
        sizes=sizes,
        ops=ops,
        batches=batches,
        transports=transports,
        streams=streams,
        nodes=nodes,
        clients=clients,
        verify=verify,
    )
    if not 1 <= repeat <= ROUNDS_MAX:
        raise InvalidRequest(f"`--repeat` is {repeat}", hint=f"give 1 to {ROUNDS_MAX}")
    check_results({"json": json_file, "chart": chart})
    _check_drawable(chart)
    settings = Settings(
        rounds=min(repeat, QUICK_ROUNDS) if is_quick else repeat,
        memory_bytes=parse_bytes(memory) if memory else 0,
        arena=arena,
        peers=find_peers(peer or []),
    )
    cases = plan(choice, is_quick=is_quick, has_peers=bool(settings.peers))
    machine, start_s = machine_facts(), time.monotonic()
    with Board() as board:
        outcome = Bench(settings, board).run(cases)
    write_json(json_file, as_json(outcome), machine)
    console = wide_console()
    print_report(outcome, console)
    if chart is not None:
        from gd2fs.bench.io.picture import draw  # what needs matplotlib

        with writing(chart):
            draw(outcome, chart)
        console.print(f"chart: {chart}", markup=False, soft_wrap=True)
    console.print(f"done in {time.monotonic() - start_s:.0f} s")


def gil(
    rounds: Rounds = GIL_ROUNDS,
    seconds: Seconds = GIL_SECONDS,
    arena: Arena = "auto",
    json_file: Json = None,
) -> None:
    """Measure what batches cost the other Python threads of their process.

    A thread counts beside 64 MiB batches, then beside the same load from another process; and
    every kind of batch says how long it held the interpreter's lock.
    """
    check_results({"json": json_file})
    machine = machine_facts()
    with Board() as board:
        outcome = run_gil(rounds=rounds, seconds=seconds, arena=arena, board=board)
    write_json(json_file, outcome.as_dict(), machine)
    print_gil(outcome, wide_console())


def soak(
    minutes: Minutes = 5.0,
    clients: SoakClients = CLIENTS_MAX,
    nodes: SoakNodes = 1,
    transport: SoakTransport = "tcp",
    arena: Arena = "auto",
    json_file: Json = None,
) -> None:
    """Load nodes fully for minutes: reads, writes, batches and probes, all bytes compared.

    Fails when a call does, when bytes differ, or when memory or open descriptors grow.
    """
    check_results({"json": json_file})
    machine = machine_facts()
    with Board() as board:
        outcome = run_soak(
            seconds=minutes * 60,
            nodes=nodes,
            clients=clients,
            transport=transport,
            arena=arena,
            board=board,
        )
    write_json(json_file, outcome.as_dict(), machine)
    print_soak(outcome, wide_console())
    if not outcome.is_good:
        raise GD2FSError("the soak failed", hint="the table and the lines below it say where")


def write_json(file: Path | None, facts: dict[str, Any], machine: dict[str, Any]) -> None:
    if file is None:
        return
    origin = {"machine": machine, "date": machine["date"], "command": _command_line()}
    write_facts(file, facts | origin)


def wide_console() -> Console:
    """Standard output; a file or a pipe is as wide as the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def _command_line() -> str:
    return shlex.join(["gd2fs", *sys.argv[1:]])


def _check_drawable(file: Path | None) -> None:
    if file is None:
        return
    if file.suffix.lower() not in CHART_ENDS:
        ends = ", ".join(CHART_ENDS)
        raise InvalidRequest(f"`--chart` is {file}", hint=f"name a file that ends with {ends}")
    if importlib.util.find_spec("matplotlib") is None:
        raise InvalidRequest(
            "`matplotlib` is not installed", hint="run `pip install 'gd2fs[bench]'`"
        )
