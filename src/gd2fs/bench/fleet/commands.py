"""Commands: `gd2fs bench topology` for SGLang, for vLLM, and for servers that already run."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gd2fs.bench.board import Board
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
from gd2fs.bench.workload import Workload
from gd2fs.errors import GD2FSError
from gd2fs.outputs import write_facts, writing
from gd2fs.sizes import parse_bytes

if TYPE_CHECKING:
    from gd2fs.bench.fleet.outcome import FleetOutcome

ENGINES = ("sglang", "vllm")
FLEET_NAME = "gd2fs bench topology"
MIB = 1 << 20

Engine = Annotated[str, typer.Option(metavar="NAME", help="sglang or vllm")]
Before = Annotated[
    list[str] | None,
    typer.Option("--a", metavar="URL", help="A server without GD2FS that runs; again for more"),
]
After = Annotated[
    list[str] | None,
    typer.Option("--b", metavar="URL", help="A server with GD2FS that runs; again for more"),
]
Key = Annotated[str, typer.Option("--api-key", envvar="OPENAI_API_KEY", help="Of running servers")]
Model = Annotated[
    str, typer.Option(metavar="FOLDER", help="Checkpoint; of running servers the model's name")
]
Python = Annotated[
    str, typer.Option(metavar="FILE", help="Python that has the engine and gd2fs installed")
]
OnCpu = Annotated[bool, typer.Option("--cpu", help="The engines run on the CPU")]
Spec = Annotated[
    str, typer.Option(metavar="MODULE:CLASS", help="Of vLLM's offloading, on a device without one")
]
Options = Annotated[str, typer.Option(metavar="TEXT", help="Further flags of every server")]
Dtype = Annotated[str, typer.Option(metavar="NAME", help="bfloat16, float16 or float32")]
LoadFormat = Annotated[str, typer.Option(metavar="NAME", help="`dummy`: random weights")]
DeviceTokens = Annotated[int, typer.Option(metavar="N", help="Of each engine's own cache")]
PageTokens = Annotated[int, typer.Option(metavar="N", help="Of a page")]
Requests = Annotated[int, typer.Option(metavar="N", help="Of each engine at the same time")]
Threads = Annotated[int, typer.Option(metavar="N", help="Of each engine, with --cpu")]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Of the host, for all caches of an arm")]
Runs = Annotated[int, typer.Option(metavar="N", help="Of both arms in turn; medians are shown")]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts there")
]

fleet_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def is_for_fleet(words: Sequence[str]) -> bool:
    """Whether `topology` with these words means engines of here, or servers that run."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        is_engine = name == "--engine" and (value if equals else after) in ENGINES
        if is_engine or name in ("--a", "--b"):
            return True
    return False


@fleet_app.command("topology")
def fleet(
    engine: Engine = "",
    before: Before = None,
    after: After = None,
    key: Key = "",
    model: Model = "",
    python: Python = sys.executable,
    on_cpu: OnCpu = False,
    spec: Spec = "",
    server_options: Options = "",
    dtype: Dtype = "bfloat16",
    load_format: LoadFormat = "auto",
    device_tokens: DeviceTokens = 8192,
    page_tokens: PageTokens = 64,
    requests: Requests = 8,
    threads: Threads = 1,
    instances: Instances = 4,
    memory: Memory = "1GiB",
    runs: Runs = 1,
    sessions: Sessions = 6,
    rounds: Rounds = 8,
    first_tokens: First = 512,
    follow_tokens: Follow = 32,
    answer_tokens: Length = 16,
    concurrency: Concurrency = 4,
    seed: Seed = 1,
    json_file: Json = None,
    html_file: Html = None,
) -> None:
    """Play the same conversations to engines with private caches, then to engines with GD2FS.

    With `--engine` all servers are started here and end here, and a reference run says before what
    the right answers are. With `--a` and `--b` they run already, and are asked over OpenAI's API;
    every run has texts of its own, so that nothing of an earlier one is found.
    """
    check_results({"json": json_file, "html": html_file}, {"`--python`": Path(python)})
    check_installed("httpx")
    check_installed("matplotlib")
    from gd2fs.bench.fleet import kinds, run, running  # which need what was checked

    workload = Workload(
        sessions, rounds, first_tokens, follow_tokens, answer_tokens, concurrency, seed
    )
    begin_s = time.monotonic()
    with Board() as board:
        if before or after:
            arms = running.Arms(before or [], after or [], model, key)
            outcome = asyncio.run(running.run_running(arms, workload, board, runs=runs))
        else:
            own = kinds.EngineSetup(
                python=python,
                model=model,
                dtype=dtype,
                device_tokens=device_tokens,
                page_tokens=page_tokens,
                requests=requests,
                threads=threads,
                load_format=load_format,
                options=tuple(shlex.split(server_options)),
            )
            kind = kinds.kind_of(engine, own, on_cpu=on_cpu, spec=spec)
            setup = run.FleetSetup(instances, parse_bytes(memory) // MIB, runs)
            outcome = run.run_fleet(kind, workload, setup, board)
    show(outcome, json_file, html_file, seconds=time.monotonic() - begin_s)


def show(
    outcome: FleetOutcome, json_file: Path | None, html_file: Path | None, *, seconds: float
) -> None:
    """Write what came out. Raises GD2FSError when answers differ that must not."""
    from gd2fs.bench.fleet.report import print_fleet, write_fleet_page

    if json_file is not None:
        write_facts(json_file, outcome.as_dict())
    console = Console(highlight=False)
    print_fleet(outcome, console)
    if html_file is not None:
        with writing(html_file):
            write_fleet_page(outcome, html_file)
        console.print(f"page: {html_file}", markup=False, soft_wrap=True)
    console.print(f"done in {seconds:.0f} s")
    if outcome.has_reference and outcome.disagreeing:
        raise GD2FSError(
            f"{outcome.disagreeing} answers of B differ from the reference's",
            hint="with `--dtype float32` only ties of logits are left to differ in",
        )
