"""Status: the nodes of a cluster as they see themselves, and the version of this program."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.table import Table

from gd2fs import Client, NodeStatus, __version__
from gd2fs.cli.output import (
    WIDTH_MAX,
    format_bytes,
    print_json,
    print_warning,
    printable,
    whole_lines,
)
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.errors import GD2FSError

BAR_CELLS = 10
ASK_S = 2.0
NO_MATTER = ("it is turned off", "this machine has no card for it")  # in the core's words
FIELDS = (
    "name",
    "boot",
    "epoch",
    "state",
    "transport",
    "fault",
    "rung",
    "arena_mode",
    "zero_copy",
    "arena_bytes",
    "arena_free_bytes",
    "nvme_bytes",
    "nvme_live_bytes",
    "nvme_cold_bytes",
    "nvme_fault",
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("status")(status)
    app.command("version")(version)


def status(
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Show the nodes: their states, how they are reached, their memory and what is free of it."""
    with Client(cp, cluster=cluster, transport=transport) as client:
        nodes = client.ping()
        reports = _reports(client)
    if as_json:
        print_json({"nodes": [_facts(node, reports.get(node.name, NOTHING)) for node in nodes]})
        return
    _print_table(nodes, reports)
    for name in _told_of_rdma(reports):
        if lack := reports[name].rdma_lack:
            print_warning(f"{name} takes no part in RDMA: {lack}")
    for name, report in sorted(reports.items()):
        if report.numa_fault:
            print_warning(f"{name} cannot say at which NUMA node a page lies: {report.numa_fault}")
    for node in nodes:
        if node.state == "gone":
            print_warning(f"{node.name} is gone ({node.fault}): what lies there is missed")
        if node.nvme_fault:
            print_warning(f"{node.name} does not write to {node.nvme_fault}")


def version() -> None:
    """Print the version of gd2fs and of what it runs on."""
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print(f"gd2fs {__version__} ({system})")


def show_version(is_asked: bool) -> None:
    """The option of the same meaning: print and end."""
    if is_asked:
        version()
        raise typer.Exit


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says of its machine.

    Attributes:
        rdma_lack: Why it takes part in no RDMA; empty when it does; None: it has not said.
        numa_bytes: Of its memory, by NUMA node; empty where all memory is equally far.
        numa_fault: Why pages cannot be asked for at a NUMA node; else empty.
    """

    rdma_lack: str | None = None
    numa_bytes: Mapping[int, int] = field(default_factory=dict)
    numa_fault: str = ""


NOTHING = Report()


def _reports(client: Client) -> dict[str, Report]:
    """By node, of those that say it."""
    try:
        replies = client.settings({"do": "report"}, timeout_s=ASK_S)
    except GD2FSError:  # its token may not ask; the rest of the status is worth having
        return {}
    return {reply.node: _report(reply.value or {}) for reply in replies}


def _report(told: Mapping[str, Any]) -> Report:
    numa = told.get("numa") or {}
    shares = sorted((int(node), size) for node, size in (numa.get("bytes") or {}).items())
    return Report(told.get("rdma_lack"), dict(shares), numa.get("fault") or "")


def _told_of_rdma(reports: Mapping[str, Report]) -> list[str]:
    """The nodes of which that is worth a word: none where no machine has cards."""
    told = {name: report.rdma_lack for name, report in reports.items()}
    names = sorted(name for name, lack in told.items() if lack is not None)
    return names if any(told[name] not in NO_MATTER for name in names) else []


def _facts(node: NodeStatus, report: Report) -> dict[str, object]:
    facts = {name: getattr(node, name) for name in FIELDS}
    return facts | {"rdma_lack": report.rdma_lack, "numa_bytes": report.numa_bytes}


def _print_table(nodes: Sequence[NodeStatus], reports: Mapping[str, Report]) -> None:
    """As wide as it is where lines are read by programs; on a terminal the bars go first."""
    with whole_lines() as console:
        table = _table(nodes, reports, has_bars=True)
        width = console.measure(table, options=console.options.update(width=WIDTH_MAX)).maximum
        console.print(table if width <= console.width else _table(nodes, reports, has_bars=False))


def _table(nodes: Sequence[NodeStatus], reports: Mapping[str, Report], *, has_bars: bool) -> Table:
    gap = (0, 1) if has_bars else (0, 1, 0, 0)  # two blanks between columns, or one
    table = Table(box=None, pad_edge=False, header_style="bold", padding=gap)
    table.add_column("node", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("over", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    table.add_column("zero copy", overflow="fold")
    table.add_column("used", justify="right", no_wrap=True)
    table.add_column("of", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    has_nvme = any(node.nvme_bytes for node in nodes)
    if has_nvme:
        table.add_column("nvme", justify="right", no_wrap=True)
    has_rdma = bool(_told_of_rdma(reports))
    if has_rdma:
        table.add_column("rdma", no_wrap=True)
    has_numa = any(report.numa_bytes for report in reports.values())
    if has_numa:
        table.add_column("numa", overflow="fold")
    for node in sorted(nodes, key=lambda node: node.name):
        used = node.arena_bytes - node.arena_free_bytes
        report = reports.get(node.name, NOTHING)
        is_known = node.arena_bytes > 0
        table.add_row(
            printable(node.name),
            node.state,
            node.transport if is_known else "-",
            printable(f"{node.rung}, {node.arena_mode}") if is_known else "-",
            printable(node.zero_copy or "-") if is_known else "-",
            format_bytes(used) if is_known else "-",
            format_bytes(node.arena_bytes) if is_known else "-",
            _share(used, node.arena_bytes, has_bars),
            *([_nvme(node)] if has_nvme else []),
            *([_rdma(report.rdma_lack)] if has_rdma else []),
            *([_numa(report.numa_bytes)] if has_numa else []),
        )
    return table


def _nvme(node: NodeStatus) -> str:
    if not node.nvme_bytes:
        return "-"
    return f"{format_bytes(node.nvme_live_bytes)} of {format_bytes(node.nvme_bytes)}"


def _rdma(lack: str | None) -> str:
    return "-" if lack is None else "off" if lack else "on"


def _numa(shares: Mapping[int, int]) -> str:
    return " + ".join(map(format_bytes, shares.values())) or "-"


def _share(part: int, whole: int, has_bar: bool) -> str:
    if whole == 0:
        return ""
    percent = f"{100 * part / whole:.0f} %"
    return f"{_bar(part / whole)} {percent:>5}" if has_bar else percent


def _bar(share: float) -> str:
    full, empty = ("█", "░") if (sys.stdout.encoding or "").lower() == "utf-8" else ("#", ".")
    cells = round(BAR_CELLS * share)
    return full * cells + empty * (BAR_CELLS - cells)
