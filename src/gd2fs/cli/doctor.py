"""Doctor: what is not as it should be on this machine and in its cluster, each with its fix."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gd2fs import Client
from gd2fs.cli.output import print_json
from gd2fs.cli.serve import node_config, options_of, serve
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.config_file import read_config
from gd2fs.errors import GD2FSError, InvalidRequest

EXIT_UNWELL = 1

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="What `gd2fs serve --config` is given: look at what this node needs",
        show_default=False,
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        metavar="sglang|vllm", help="Look at the servers of it that run here", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("doctor")(doctor)


def doctor(
    config_file: ConfigOption = None,
    engine: EngineOption = None,
    is_full: Annotated[bool, typer.Option("--all", help="Say in full what is well too")] = False,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
    root: Annotated[str, typer.Option(hidden=True)] = "/",
) -> None:
    """Find what is not as it should be, on this machine and in the cluster, each with its fix.

    Nothing is changed. Nodes are asked when they are named, by `--cp` or GD2FS_CPADDR. The status
    is 0 without errors and warnings, else 1.
    """
    from gd2fs.doctor import ENGINES, Machine, Subject, examine, is_well
    from gd2fs.doctor.answers import ask_cluster
    from gd2fs.doctor.report import counts_of, print_report

    if engine is not None and engine not in ENGINES:
        raise InvalidRequest(f"`--engine` is `{engine}`", hint=f"one of {', '.join(ENGINES)}")
    machine, wanted = Machine(root), _wanted(config_file)
    name = cluster or wanted.options.get("cluster")
    connect = partial(_connect, cp, cluster=name, transport=transport)
    is_asked = bool(cp or machine.environment.get("GD2FS_CPADDR"))
    answers = ask_cluster(connect) if is_asked else None
    findings = examine(Subject(machine, wanted, answers, engine or ""))
    if as_json:
        print_json(
            {"counts": counts_of(findings), "findings": [each.as_dict() for each in findings]}
        )
    else:
        print_report(findings, Console(highlight=False), is_full=is_full)
    if not is_well(findings):
        raise typer.Exit(EXIT_UNWELL)


def _connect(
    cp: str | None, address: str | None, *, cluster: str | None, transport: str | None
) -> Client:
    """A client of one node, or of those that the user named."""
    return Client(
        address or cp, cluster=cluster, transport=transport, io_threads=1, streams=1, timeout_s=3.0
    )


def _wanted(path: Path | None) -> Any:
    """What the file asks for; what is wrong with it is a finding, not the end."""
    from gd2fs.doctor import Wanted, wanted_of

    if path is None:
        return Wanted()
    try:
        file = read_config(path, options_of(serve))
        defaults = inspect.signature(serve).parameters
        words = {name: defaults[name].default for name in options_of(serve)}
        words |= {**file.options, "insecure": True}  # whether it has a token is found by a check
        words.pop("log", None)  # of the command, not of the node
        return wanted_of(node_config(words, file.rules), file.options)
    except GD2FSError as fault:
        return Wanted(fault=str(fault), hint=fault.hint)
