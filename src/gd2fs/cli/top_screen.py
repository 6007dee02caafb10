"""Top's screen: an overview as lines that fit a terminal. Nothing here asks or waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gd2fs.cli.output import format_bytes, printable
from gd2fs.cli.units import format_ago, format_count, format_ms, format_rate, format_share
from gd2fs.overview import Overview

BAR_CELLS = 10
GAP_CELLS = 2
NAME_CELLS_MAX = 32
NAMESPACES_SHOWN = 5
EVICTIONS_SHOWN = 3
PROBLEMS_SHOWN = 3
NAMES_SHOWN = 4
NODES_SHOWN_MIN = 3
Node = Mapping[str, Any]
STYLES = {"active": "green", "joining": "cyan", "draining": "yellow", "gone": "red"}


def _count(name: str) -> Callable[[Node], float]:
    return lambda node: node["counts"][name] if node["counts"] else -1.0


def _rate(name: str) -> Callable[[Node], float]:
    return lambda node: (
        -1.0 if not node["rates"] or node["rates"][name] is None else (node["rates"][name])
    )


def _memory_share(node: Node) -> float:
    counts = node["counts"]
    return _used(counts) / counts["arena_bytes"] if counts and counts["arena_bytes"] else -1.0


# By what nodes are sorted; the largest first, and alike ones by name.
SORTS: dict[str, Callable[[Node], float]] = {
    "name": lambda _: 0.0,
    "memory": _memory_share,
    "read": _rate("read_bytes_per_s"),
    "write": _rate("written_bytes_per_s"),
    "hits": _rate("hit_rate"),
    "evicted": _rate("evicted_bytes_per_s"),
    "moves": _count("moves_left"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """Of the table of nodes. The highest ``rank`` is left out first where there is no room."""

    title: str
    rank: int
    cell: Callable[[Node], Text | str]
    is_left: bool = False


@dataclass
class View:
    """What somebody has chosen to see."""

    sort: str = "name"
    first: int = 0  # of the nodes, in their order
    is_paused: bool = False
    fault: str = ""  # why there is nothing newer

    def next_sort(self) -> None:
        """Go on to the next order."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        self.first = 0

    def scroll(self, by: int, count: int) -> None:
        """Move the first node that is shown, of ``count``."""
        self.first = max(0, min(self.first + by, count - 1))


def screen(now: Overview, view: View, width: int, height: int) -> RenderableType:
    """Everything, in ``height`` lines of ``width`` cells."""
    above = [*_header(now, view), *_totals(now)]
    below = _below(now)
    footer = Text(
        f"q quit  s sort: {view.sort}  p {'go on' if view.is_paused else 'pause'}  ↑ ↓ scroll",
        style="reverse",
        no_wrap=True,
        overflow="crop",
    )
    footer.pad_right(max(0, width - footer.cell_len))
    room = max(NODES_SHOWN_MIN, height - len(above) - len(below) - 4)  # titles, blank, rest, footer
    return Group(*above, Text(), *nodes_table(now, view, width, room), *below, footer)


def plain(now: Overview, view: View, width: int) -> RenderableType:
    """Everything once, with all nodes, for a pipe or a file."""
    nodes = nodes_table(now, view, width, len(now["nodes"]))
    return Group(*_header(now, view), *_totals(now), Text(), *nodes, *_below(now))


# ---- above the table -----------------------------------------------------------------------------


def _header(now: Overview, view: View) -> list[Text]:
    total = now["total"]
    nodes = f"{total['answering']} of {total['nodes']} nodes answer"
    facts = [f"cluster {printable(now['cluster'])}", f"epoch {now['epoch']}", now["provider"]]
    line = Text.assemble(("gd2fs top", "bold"), "  ", ", ".join(facts), ", ")
    line.append(nodes, "" if total["answering"] == total["nodes"] else "bold red")
    line.append(time.strftime("  %H:%M:%S", time.localtime(now["at_ms"] / 1000)))
    if view.is_paused:
        line.append("  paused", "bold yellow")
    lines = [line]
    if view.fault:
        lines.append(Text(f"nothing newer: {printable(view.fault)}", "bold red"))
    return [_cropped(each) for each in lines]


def _totals(now: Overview) -> list[Text]:
    counts, rates = now["total"]["counts"], now["total"]["rates"] or {}
    memory = _meter("memory", _used(counts), counts["arena_bytes"])
    if counts["nvme_bytes"]:
        memory = Text.assemble(
            memory, "   ", _meter("nvme", counts["nvme_live_bytes"], counts["nvme_bytes"])
        )
    traffic = [
        f"read {format_rate(rates.get('read_bytes_per_s'))}",
        f"write {format_rate(rates.get('written_bytes_per_s'))}",
        f"hits {format_share(rates.get('hit_rate'))}",
        f"p99 of reads {format_ms(_latency_of(now['total'], 'p99_ms'))}",
        f"requests {format_count(rates.get('requests_per_s'))}/s",
        f"evicted {format_rate(rates.get('evicted_bytes_per_s'))}",
    ]
    return [_cropped(memory), _cropped(Text("   ".join(traffic))), _moves(counts, rates)]


def _moves(counts: Mapping[str, int], rates: Mapping[str, Any]) -> Text:
    left = counts["moves_left"] + counts["records_left"]
    if not left:
        return Text("moves: none, everything is where it belongs")
    return _cropped(
        Text(
            f"moves: {format_count(counts['moves_left'])} pieces "
            f"({format_bytes(counts['moves_left_bytes'])}) and "
            f"{format_count(counts['records_left'])} records left, "
            f"{format_rate(rates.get('moved_bytes_per_s'))}",
            "yellow",
        )
    )


def _meter(label: str, part: int, whole: int) -> Text:
    share = part / whole if whole else 0.0
    return Text.assemble(
        f"{label} ",
        bar(share, 2 * BAR_CELLS),
        f" {format_share(share)}, {format_bytes(part)} of {format_bytes(whole)}",
    )


def bar(share: float, cells: int) -> Text:
    """``cells`` cells, so many of them full. A cache that is full is as it should be."""
    full = min(cells, round(cells * share))
    return Text.assemble(("█" * full, "blue"), ("░" * (cells - full), "dim"))


# ---- nodes ---------------------------------------------------------------------------------------


def nodes_table(now: Overview, view: View, width: int, room: int) -> list[Text]:
    """The nodes from the first that is wanted, ``room`` lines of them, and what is not shown."""
    ordered = sorted(now["nodes"], key=lambda node: (-SORTS[view.sort](node), node["name"]))
    view.first = max(0, min(view.first, len(ordered) - min(room, len(ordered))))
    shown = ordered[view.first : view.first + room]
    has_nvme = now["total"]["counts"]["nvme_bytes"] > 0
    columns = [each for each in COLUMNS if has_nvme or each.title != "nvme"]
    lines = _lines(shown, columns, width)
    below = len(ordered) - view.first - len(shown)
    rest = f"{view.first} above, {below} more below" if len(shown) < len(ordered) else ""
    return [*lines, Text(rest, "dim")]


def _lines(nodes: Sequence[Node], columns: Sequence[Column], width: int) -> list[Text]:
    """A line of titles, and one for each node. What is least missed goes until the rest fits."""
    cells = {each.title: [_as_text(each.cell(node)) for node in nodes] for each in columns}
    widths = {
        title: max(len(title), *(cell.cell_len for cell in column), 0)
        for title, column in cells.items()
    }
    kept = list(columns)
    while (
        sum(widths[each.title] + GAP_CELLS for each in kept) - GAP_CELLS > width and len(kept) > 2
    ):
        kept.remove(max(kept, key=lambda each: each.rank))
    titles = [Text(each.title, "bold") for each in kept]
    rows = [titles, *([cells[each.title][at] for each in kept] for at in range(len(nodes)))]
    return [_row(row, kept, widths) for row in rows]


def _row(cells: Sequence[Text], columns: Sequence[Column], widths: Mapping[str, int]) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    for cell, column in zip(cells, columns, strict=True):
        blanks = " " * (widths[column.title] - cell.cell_len)
        line.append_text(cell if column.is_left else Text(blanks))
        line.append_text(Text(blanks) if column.is_left else cell)
        line.append(" " * GAP_CELLS)
    line.right_crop(GAP_CELLS)
    return line


def _as_text(cell: Text | str) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)


def _state(node: Node) -> Text:
    if not node["answers"] and node["state"] != "gone":
        return Text("silent", "bold red")
    return Text(node["state"], STYLES.get(node["state"], ""))


def _memory(node: Node) -> Text:
    counts = node["counts"]
    if not counts or not counts["arena_bytes"]:
        return Text("-")
    share = _used(counts) / counts["arena_bytes"]
    return Text.assemble(bar(share, BAR_CELLS), f" {format_share(share):>6}")


def _used_of(node: Node) -> str:
    counts = node["counts"]
    if not counts:
        return "-"
    return f"{format_bytes(_used(counts))} of {format_bytes(counts['arena_bytes'])}"


def _nvme(node: Node) -> str:
    counts = node["counts"]
    if not counts or not counts["nvme_bytes"]:
        return "-"
    return format_share(counts["nvme_live_bytes"] / counts["nvme_bytes"])


def _used(counts: Mapping[str, int]) -> int:
    return counts["arena_bytes"] - counts["free_bytes"]


def _p99(node: Node) -> str:
    return format_ms(_latency_of(node, "p99_ms"))


def _latency_of(of: Node, name: str) -> float | None:
    read = (of["latency"] or {}).get("read")
    return read[name] if read else None


def _moves_of(node: Node) -> str:
    return format_count(node["counts"]["moves_left"] if node["counts"] else None)


def _rate_of(node: Node, name: str) -> float | None:
    return node["rates"][name] if node["rates"] else None


COLUMNS = (
    Column("node", 0, lambda node: _short(node["name"]), is_left=True),
    Column("state", 1, _state, is_left=True),
    Column("memory", 2, _memory, is_left=True),
    Column("used", 7, _used_of),
    Column("nvme", 6, _nvme),
    Column("read", 3, lambda node: format_rate(_rate_of(node, "read_bytes_per_s"))),
    Column("write", 4, lambda node: format_rate(_rate_of(node, "written_bytes_per_s"))),
    Column("p99", 8, _p99),
    Column("hits", 5, lambda node: format_share(_rate_of(node, "hit_rate"))),
    Column("requests", 9, lambda node: format_count(_rate_of(node, "requests_per_s"))),
    Column("evicted", 10, lambda node: format_rate(_rate_of(node, "evicted_bytes_per_s"))),
    Column("moves", 11, _moves_of),
)


# ---- below the table -----------------------------------------------------------------------------


def _below(now: Overview) -> list[Text]:
    return [_cropped(each) for each in (*_namespaces(now), *_evictions(now), *_problems(now))]


def _namespaces(now: Overview) -> list[Text]:
    lines = [Text("namespaces", "bold")]
    for space in now["namespaces"][:NAMESPACES_SHOWN]:
        facts = [f"hits {format_share(space['hit_rate'])}"]
        if space["memory_bytes"] is not None:
            facts.insert(0, f"{format_bytes(space['memory_bytes'])} in memory")
        if space["quota_bytes"]:
            facts.append(f"{format_share(space['memory_bytes'] / space['quota_bytes'])} of quota")
        if space["pinned_bytes"]:
            facts.append(f"{format_bytes(space['pinned_bytes'])} pinned")
        if space["disk_bytes"]:
            facts.append(f"{format_bytes(space['disk_bytes'])} on disk")
        lines.append(
            Text(f"  {_short(space['name']) or '(all without rules)'}: {', '.join(facts)}")
        )
    rest = len(now["namespaces"]) - NAMESPACES_SHOWN
    if rest > 0:
        lines.append(Text(f"  {rest} more", "dim"))
    return lines


def _evictions(now: Overview) -> list[Text]:
    if not now["evictions"]:
        return []
    lines = [Text("let go lately", "bold")]
    for each in now["evictions"][:EVICTIONS_SHOWN]:
        ago = format_ago((now["at_ms"] - each["last_ms"]) / 1000)
        whom = f" for {_short(each['for_whom'])}" if each["for_whom"] else ""
        lines.append(
            Text(
                f"  {ago} ago, {_short(each['node'])}: {format_count(each['pieces'])} of "
                f"{_short(each['namespace'])} ({format_bytes(each['bytes'])}), {each['cause']} by "
                f"{each['policy']}{whom}"
            )
        )
    return lines


def _problems(now: Overview) -> list[Text]:
    lines = [
        Text(
            f"{'!' if each['severity'] == 'bad' else '·'} {_names(each['nodes'])} "
            f"{printable(each['text'])}",
            "bold red" if each["severity"] == "bad" else "yellow",
        )
        for each in now["problems"][:PROBLEMS_SHOWN]
    ]
    rest = len(now["problems"]) - PROBLEMS_SHOWN
    return lines + ([Text(f"  {rest} more problems", "red")] if rest > 0 else [])


def _names(nodes: Sequence[str]) -> str:
    shown = ", ".join(_short(each) for each in nodes[:NAMES_SHOWN])
    return shown if len(nodes) <= NAMES_SHOWN else f"{shown} and {len(nodes) - NAMES_SHOWN} more:"


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= NAME_CELLS_MAX else text[: NAME_CELLS_MAX - 1] + "…"


def _cropped(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
