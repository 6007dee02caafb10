"""Commands: `gd2fs bench kill`, `growth` and `cleanup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gd2fs.bench.board import Board
from gd2fs.bench.cluster.cleanup import print_cleanup, run_cleanup
from gd2fs.bench.cluster.growth import print_growth, run_growth
from gd2fs.bench.cluster.kill import print_kill, run_kill
from gd2fs.bench.cluster.replay import read_trace
from gd2fs.bench.io.commands import wide_console, write_json
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.options import check_results
from gd2fs.errors import GD2FSError, InvalidRequest

REPLICAS_MAX = 3
ROUNDS = 5
KEYS = 100_000
REQUESTS = 6000
PAGE_BYTES_MAX = 1 << 20

Membership = Annotated[str, typer.Option(metavar="static|etcd", help="Who says which nodes are")]
Replicas = Annotated[
    str, typer.Option(metavar="N,…", help=f"Copies of every page, 1 to {REPLICAS_MAX}")
]
Rate = Annotated[float, typer.Option(metavar="N", min=10, max=20_000, help="Gets a second")]
Rounds = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Deaths; the median counts")]
Keys = Annotated[int, typer.Option(metavar="N", min=1000, max=2_000_000, help="On that node")]
Copies = Annotated[int, typer.Option(metavar="N", min=1, max=REPLICAS_MAX, help="Of every page")]
Trace = Annotated[
    Path, typer.Argument(metavar="FILE", help="Lines of JSON with `hash_ids`, as Mooncake's")
]
Requests = Annotated[int, typer.Option(metavar="N", min=100, help="Of the trace, from its start")]
Pace = Annotated[float, typer.Option(metavar="N", min=1, max=2000, help="Requests a second")]
PageBytes = Annotated[
    int, typer.Option(metavar="N", min=8, max=PAGE_BYTES_MAX, help="Of every page; times of 8")
]
Memory = Annotated[str, typer.Option(metavar="SIZE", help="Of each node")]
Ramp = Annotated[float, typer.Option(metavar="SECONDS", help="As `gd2fs serve --ramp`")]
Arena = Annotated[str, typer.Option(metavar="KIND", help="As `gd2fs serve --arena`")]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write all figures there")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("kill")(kill)
    app.command("growth")(growth)
    app.command("cleanup")(cleanup)


def kill(
    replicas: Replicas = "1,2",
    membership: Membership = "static",
    rate: Rate = 1500.0,
    arena: Arena = "auto",
    json_file: Json = None,
) -> None:
    """End one of three nodes with SIGKILL under a steady load of gets, and look at every get.

    With two copies nothing may fail or miss; with one, only that node's keys. The rate must be
    back over 60 % within 2 s.
    """
    check_results({"json": json_file})
    machine = machine_facts()
    with Board() as board:
        outcomes = [
            run_kill(count, per_s=rate, etcd=_is_etcd(membership), arena=arena, board=board)
            for count in _counts(replicas)
        ]
    write_json(json_file, {"kills": [each.as_dict() for each in outcomes]}, machine)
    print_kill(outcomes, wide_console())
    if not all(each.is_good for each in outcomes):
        raise GD2FSError("the loss of a node cost more than it may", hint="the table says what")


def growth(
    trace: Trace,
    requests: Requests = REQUESTS,
    rate: Pace = 75.0,
    page_bytes: PageBytes = 1024,
    memory: Memory = "512MiB",
    copies: Copies = 1,
    ramp: Ramp = 5.0,
    arena: Arena = "auto",
    json_file: Json = None,
) -> None:
    """Let four nodes become eight and four again while a recorded trace runs, and count hits.

    The same trace runs before that on four nodes that stay. The hits of all of it may differ by
    one of a hundred, those of the worst 10 s by five.
    """
    check_results({"json": json_file}, {"the trace": trace})
    machine = machine_facts()
    options = ["--memory", memory, "--arena", arena, "--threads", "1", "--lease", "3"]
    options += ["--ramp", str(ramp), "--replicas", str(copies)]
    with Board() as board:
        outcome = run_growth(
            read_trace(trace, requests),
            per_s=rate,
            value_bytes=page_bytes // 8 * 8,
            options=options,
            board=board,
        )
    write_json(json_file, outcome.as_dict(), machine)
    print_growth(outcome, wide_console())
    if not outcome.is_good:
        raise GD2FSError("growing and shrinking cost too many hits", hint="the table says when")


def cleanup(
    keys: Keys = KEYS,
    copies: Copies = 2,
    rate: Rate = 500.0,
    rounds: Rounds = ROUNDS,
    arena: Arena = "auto",
    json_file: Json = None,
) -> None:
    """Let a node with very many keys die, and measure what gets from the others take meanwhile."""
    check_results({"json": json_file})
    machine = machine_facts()
    with Board() as board:
        outcome = run_cleanup(
            keys, replicas=copies, rounds=rounds, per_s=rate, arena=arena, board=board
        )
    write_json(json_file, outcome.as_dict(), machine)
    print_cleanup(outcome, wide_console())
    if not outcome.is_good:
        raise GD2FSError("others waited for the clean-up", hint="the table says how long")


def _is_etcd(membership: str) -> bool:
    if membership not in ("static", "etcd"):
        raise InvalidRequest(f"`--membership` is `{membership}`", hint="`static` or `etcd`")
    return membership == "etcd"


def _counts(replicas: str) -> list[int]:
    counts = [int(word) if word.isdecimal() else 0 for word in replicas.split(",")]
    if not all(1 <= count <= REPLICAS_MAX for count in counts):
        raise InvalidRequest(f"`--replicas` is `{replicas}`", hint=f"numbers, 1 to {REPLICAS_MAX}")
    return counts
