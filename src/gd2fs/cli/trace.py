"""Trace: record what is asked of running nodes, for `gd2fs sim` to replay."""

from __future__ import annotations

import gzip
import time
from pathlib import Path
from typing import IO, Annotated, cast

import typer

from gd2fs import Client
from gd2fs.cli.output import count_of, print_json, print_warning
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.errors import InvalidRequest
from gd2fs.key_trace import Recording, Summary, header_of, lines_of
from gd2fs.key_trace.recording import SECONDS_MAX

trace_app = typer.Typer(no_args_is_help=True, help="What is asked of running nodes.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    trace_app.command("record")(record)
    trace_app.callback()(lambda: None)  # a group, though it has one command
    app.add_typer(trace_app, name="trace")


def record(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Write it there; .gz: compressed")],
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="For so long")] = 60.0,
    node: Annotated[str, typer.Option(metavar="NAME", help="Only of this node")] = "",
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Only of this namespace")] = "",
    block_tokens: Annotated[
        int, typer.Option(metavar="N", help="Tokens of a page, which nodes do not know")
    ] = 1,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Record which blocks are asked for, as a trace that `gd2fs sim` reads.

    Names do not leave the nodes: numbers stand for them, which no other recording has. Nodes with
    tokens want one with the right admin in all namespaces.
    """
    if not 0 < seconds <= SECONDS_MAX:
        raise InvalidRequest(
            f"`--seconds` is {seconds:g}", hint=f"more than 0, at most {SECONDS_MAX:g}"
        )
    with (
        Client(cp, cluster=cluster, transport=transport) as client,
        Recording(client, node=node, namespace=namespace) as recording,
    ):
        nodes = list(recording.nodes)
        _write(out, recording, seconds, block_tokens)
    summary = recording.summary
    for name, why in summary.lost.items():
        print_warning(f"{name} was not recorded to the end: {why}")
    if summary.dropped:
        print_warning(f"nodes had no room to note {summary.dropped:,} keys: these are missing")
    if as_json:
        print_json(
            {
                "file": str(out),
                "seconds": seconds,
                "nodes": nodes,
                "requests": summary.requests,
                "asked_blocks": summary.asked,
                "found_blocks": summary.found,
                "stored_blocks": summary.stored,
                "dropped_keys": summary.dropped,
                "lost_nodes": summary.lost,
            }
        )
        return
    print(_text_of(summary, nodes, seconds, out))


def _write(out: Path, recording: Recording, seconds: float, block_tokens: int) -> None:
    header = header_of(recording, block_tokens)
    with _opened(out) as file, count_of(f"recording {len(recording.nodes)} nodes, s") as show:
        file.write(header)
        ends_s = time.monotonic() + seconds
        show(round(seconds))
        for line in lines_of(recording, seconds, block_tokens):
            file.write(line)
            show(max(0, round(ends_s - time.monotonic())))


def _opened(out: Path) -> IO[str]:
    if out.suffix == ".gz":
        return cast("IO[str]", gzip.open(out, "wt", encoding="ascii"))
    return out.open("w", encoding="ascii")


def _text_of(summary: Summary, nodes: list[str], seconds: float, out: Path) -> str:
    found = f"{summary.found / summary.asked:.1%} found" if summary.asked else "none asked for"
    return (
        f"{summary.requests:,} requests of {summary.asked:,} blocks, {found}, and "
        f"{summary.stored:,} blocks put that nobody had asked for: {seconds:g} s of "
        f"{len(nodes)} node{'s' * (len(nodes) != 1)}, in {out}"
    )
