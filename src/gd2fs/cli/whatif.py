"""What if: what the running cluster would find with more memory, more disk or more nodes."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gd2fs import Client
from gd2fs.cli.extras import needs
from gd2fs.cli.output import format_bytes, print_json, print_warning, printable, whole_lines
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.errors import InvalidRequest
from gd2fs.whatif import Answer, Question, Row, answer_of, curves_of

NOTHING = "-"
TOO_FEW = "too few samples"
HOUR_S = 3600.0


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("whatif")(whatif)


def whatif(
    dram: Annotated[
        str,
        typer.Option(metavar="2x|SIZE", help="Memory of each node: times what it has, or bytes"),
    ] = "",
    nvme: Annotated[
        str, typer.Option(metavar="2x|SIZE", help="Disk of each node: times what it has, or bytes")
    ] = "",
    nodes: Annotated[str, typer.Option(metavar="+N|-N", help="So many more nodes, or fewer")] = "",
    page_tokens: Annotated[
        int,
        typer.Option(metavar="N", help="Tokens of a page: adds tokens that need not be computed"),
    ] = 0,
    engine: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Rates of an engine, as of `gd2fs sim`")
    ] = "",
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Prices, as of `gd2fs sim`: adds what it costs"),
    ] = None,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Tell what the cluster would find with more memory, more disk or more nodes.

    By namespace: the hit rate as counted, what the nodes' curves say of today's size, which tells
    how well they fit, and of the size that is asked about. Without any option: twice the memory.
    """
    if not (dram or nvme or nodes):
        dram = "2x"
    question = Question.parse(dram=dram, nvme=nvme, nodes=nodes)
    if page_tokens < 0:
        raise InvalidRequest(f"`--page-tokens` is {page_tokens}", hint="give 0 or more")
    worth = _Worth(page_tokens, engine, prices)
    with Client(cp, cluster=cluster, transport=transport) as client:
        told, silent = curves_of(client)
    answer = answer_of(told, question)
    for node, why in silent.items():
        print_warning(f"{node} is left out: {why}")
    for note in answer.notes:
        print_warning(note)
    if as_json:
        print_json(asdict(answer) | {"left_out": silent} | worth.of(answer))
    else:
        _print(answer, worth)


class _Worth:
    """What it would save and cost, as far as somebody has said what things are worth."""

    def __init__(self, page_tokens: int, engine: str, prices: Path | None) -> None:
        self.page_tokens = page_tokens
        self._rates = _loaded("engine").engine_of(engine) if engine else None
        self._prices = _loaded("cost").prices_of(prices) if prices else None
        if self._rates and not page_tokens:
            raise InvalidRequest(
                "`--engine` computes tokens", hint="give `--page-tokens` too: those of a page"
            )

    def of(self, answer: Answer) -> dict[str, float | None]:
        """``tokens_per_s`` that need not be computed, ``gpus`` that would compute them, what these
        save in an hour, and what the memory and the disks cost in an hour; None: not known. Below
        0 with less of it: so many more have to be computed, and it costs so much less."""
        gain, looks = answer.total.gain, answer.total.looks_per_s
        is_known = gain is not None and self.page_tokens > 0
        tokens = (gain or 0.0) * looks * self.page_tokens if is_known else None
        worth: dict[str, float | None] = {"tokens_per_s": tokens, "gpus": None}
        worth |= {"saved_per_hour": None, "cost_per_hour": None}
        per_instance = self._prices.gpus_per_instance if self._prices else 1.0
        if self._rates and tokens is not None:
            worth["gpus"] = tokens * self._rates.token_s * per_instance
        if self._prices:
            memory = answer.then_memory_bytes - answer.memory_bytes
            disk = answer.then_disk_bytes - answer.disk_bytes
            cost = memory * self._prices.dram_gb + disk * self._prices.nvme_gb
            worth["cost_per_hour"] = cost / 1e9
            if worth["gpus"] is not None:
                worth["saved_per_hour"] = worth["gpus"] * self._prices.gpu
        return worth

    def lines(self, answer: Answer) -> Sequence[str]:
        """The same for people."""
        worth = self.of(answer)
        lines = []
        tokens, gpus = worth["tokens_per_s"], worth["gpus"]
        if tokens is not None and tokens >= 0:
            lines.append(f"{tokens:,.0f} tokens/s need not be computed")
        elif tokens is not None:
            lines.append(f"{-tokens:,.0f} tokens/s more have to be computed")
        if gpus is not None:
            word = "would compute them" if gpus >= 0 else "more are needed for them"
            lines.append(f"{abs(gpus):.2f} GPUs {word}")
        if worth["cost_per_hour"] is not None:
            lines.append(_cost_line(worth["cost_per_hour"], worth["saved_per_hour"]))
        return lines


def _cost_line(cost: float, saved: float | None) -> str:
    """Of an hour: memory and disks that cost so much more, GPUs that cost so much less."""
    if cost >= 0 and (saved is None or saved >= 0):
        less = "" if saved is None else f", and saves {saved:,.2f}"
        return f"costs {cost:,.2f} an hour{less}"
    line = f"memory and disks cost {abs(cost):,.2f} an hour {'more' if cost >= 0 else 'less'}"
    if saved is None:
        return line
    return f"{line}, GPUs {abs(saved):,.2f} {'more' if saved < 0 else 'less'}"


def _loaded(name: str) -> Any:
    with needs("sim"):
        return importlib.import_module(f"gd2fs.sim.{name}")


def _print(answer: Answer, worth: _Worth) -> None:
    with whole_lines() as console:
        for line in (_size_line(answer), *worth.lines(answer)):
            console.print(line, markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
        table.add_column("namespace", overflow="fold")
        is_less = any(_bytes_of(row) < 0 for row in (answer.total, *answer.namespaces))
        last = "bytes/s found" if is_less else "more bytes/s"
        for title in ("looks/s", "found", "by the curve", "then", last):
            table.add_column(title, justify="right")
        for row in answer.namespaces:
            table.add_row(printable(row.name) or "(all others)", *_cells(row, is_less))
        if len(answer.namespaces) != 1:
            table.add_row("all", *_cells(answer.total, is_less))
        console.print(table)


def _size_line(answer: Answer) -> str:
    now = _size_text(answer.nodes, answer.memory_bytes, answer.disk_bytes)
    then = _size_text(answer.then_nodes, answer.then_memory_bytes, answer.then_disk_bytes)
    span = f"{answer.span_s:.0f} s" if answer.span_s < 120 else f"{answer.span_s / 60:.0f} min"
    return f"{now} -> {then}, by what was asked in {span}"


def _size_text(nodes: int, memory: int, disk: int) -> str:
    disks = f" and {format_bytes(disk)} of disk" if disk else ""
    return f"{nodes} node{'s' * (nodes != 1)} with {format_bytes(memory)} of memory{disks}"


def _bytes_of(row: Row) -> int:
    return round(row.more_bytes_per_s or 0)


def _bytes_text(row: Row, is_less: bool) -> str:
    """``is_less``: some row finds less, so that each has to say which way it goes."""
    count = _bytes_of(row)
    if not is_less:
        return f"{format_bytes(count)}/s"
    return (
        f"{format_bytes(abs(count))}/s {'fewer' if count < 0 else 'more'}" if count else "as many"
    )


def _cells(row: Row, is_less: bool) -> Sequence[str]:
    is_known = row.now is not None and row.then is not None
    return (
        f"{row.looks_per_s:,.1f}",
        f"{row.counted:.1%}",
        f"{row.now:.1%}" if is_known else TOO_FEW,
        f"{row.then:.1%}" if is_known else NOTHING,
        _bytes_text(row, is_less) if is_known else NOTHING,
    )
