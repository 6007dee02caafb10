"""Trace: record what is asked of running nodes, for `gd2fs sim` to replay."""

from __future__ import annotations

import gzip
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, cast

import typer

from gd2fs import Client
from gd2fs.cli import ENDINGS, Ended
from gd2fs.cli.output import count_of, print_json, print_warning
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.errors import InvalidRequest
from gd2fs.key_trace import (
    Recording,
    Summary,
    gaps_of,
    header_of,
    lines_of,
    nothing_recorded,
)
from gd2fs.key_trace.recording import SECONDS_MAX


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(no_args_is_help=True, help="What is asked of running nodes.")
    group.command("record")(record)
    group.callback()(lambda: None)  # a group, though it has one command
    app.add_typer(group, name="trace")


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
    tokens want one with the right admin in all namespaces. Ctrl-C ends it, and the file has what
    was asked until then. Where nothing was asked that is an error.
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
        with _ending() as ends:
            seconds = _write(out, recording, seconds, block_tokens, ends)
        summary = recording.summary
        fault = None if summary.requests else _nothing(client, namespace, nodes, seconds, out)
    for gap in gaps_of(summary):
        print_warning(gap)
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
    elif summary.requests:
        print(_text_of(summary, nodes, seconds, out))
    if ends.number:
        if fault:
            print_warning(str(fault))
        raise Ended(ends.number)
    if fault:
        raise fault


class _Ending:
    """Which signal said that it is to end early; 0: none."""

    def __init__(self) -> None:
        self.number = 0

    def take(self, number: int, _: FrameType | None) -> None:
        """The first one ends it in good order, the next one at once."""
        if self.number:
            raise Ended(number)
        self.number = number

    def clock(self) -> float:
        """Steady seconds; no end of them once it is to end."""
        return math.inf if self.number else time.monotonic()


@contextmanager
def _ending() -> Iterator[_Ending]:
    """Until it is left, SIGINT and SIGTERM say that the recording is over: its file is whole."""
    ends = _Ending()
    former = {}
    if threading.current_thread() is threading.main_thread():
        former = {each: signal.getsignal(each) for each in ENDINGS}
    former = {each: was for each, was in former.items() if was is not signal.SIG_IGN}
    try:
        for each in former:
            signal.signal(each, ends.take)
        yield ends
    finally:
        for each, was in former.items():
            signal.signal(each, was)


def _nothing(
    client: Client, namespace: str, nodes: list[str], seconds: float, out: Path
) -> InvalidRequest:
    """What is said of a file without a request."""
    why = nothing_recorded(client, nodes, namespace, seconds)
    return InvalidRequest(f"{why}; {out} has no request", hint=why.hint)


def _write(
    out: Path, recording: Recording, seconds: float, block_tokens: int, ends: _Ending
) -> float:
    """Returns for how many seconds."""
    header = header_of(recording, block_tokens)
    with _opened(out) as file, count_of(f"recording {len(recording.nodes)} nodes, s") as show:
        file.write(header)
        begun_s = time.monotonic()
        show(round(seconds))
        for line in lines_of(recording, seconds, block_tokens, clock=ends.clock):
            file.write(line)
            show(max(0, round(begun_s + seconds - time.monotonic())))
        return round(min(seconds, time.monotonic() - begun_s), 1) if ends.number else seconds


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
