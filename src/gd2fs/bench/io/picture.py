"""Picture: a run as one PNG. What was reached of each ceiling, and how small calls are spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gd2fs.bench.io.latency import histogram
from gd2fs.bench.io.report import SMALL_BYTES
from gd2fs.bench.io.run import Outcome, Row
from gd2fs.drawing import BLUE, GREY, INK, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_INCHES = 0.34
HEAD_INCHES = 1.6
SMALL_ROWS = 9
PERCENT_MAX = 200  # longer bars are cut: a view is many times a copy
PEER_COLOURS = (GREY, "#c9c9c3", "#6d6d68", "#e3c08a")


def draw(outcome: Outcome, file: Path) -> None:
    """Write the picture of ``outcome``."""
    small = [row for row in outcome.rows if len(row.store.calls_ns) > 0 and _is_small(row)]
    panels = [_draw_ratios, *([_draw_latency] if small else [])]
    panels += [_draw_peers] if _has_peers(outcome) else []
    heights = [max(3, len(outcome.rows)), *([SMALL_ROWS] if small else [])]
    heights += [max(4, _bars(outcome) // 2)] if _has_peers(outcome) else []
    height = HEAD_INCHES + ROW_INCHES * sum(heights)
    with drawing(len(panels), 1, height=height, row_heights=heights) as (figure, axes):
        for panel, each in zip(panels, axes[:, 0], strict=True):
            panel(each, outcome)
        figure.suptitle(_heading(outcome), x=0.01, ha="left", fontsize=12, weight="bold")
        figure.savefig(file, dpi=150)


def _heading(outcome: Outcome) -> str:
    busy = "; the machine was busy" if outcome.is_busy else ""
    return f"gd2fs bench io, each case in turn with its ceiling, {outcome.rung} memory{busy}"


def _draw_ratios(axes: Axes, outcome: Outcome) -> None:
    for at, row in enumerate(outcome.rows):
        percent, target = min(100 * row.ratio, PERCENT_MAX), row.case.target()
        axes.barh(at, percent, height=0.62, color=BLUE)
        if target and target.kind == "ratio":
            axes.plot([100 * target.value] * 2, [at - 0.42, at + 0.42], color=INK, linewidth=2)
            percent = max(percent, 100 * target.value)
        beside: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        over_line = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        axes.annotate(_reached(row), (percent, at), fontsize=8, bbox=over_line, **beside)
    axes.axvline(100, color=GREY, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(outcome.rows)), [row.case.label() for row in outcome.rows])
    axes.invert_yaxis()
    longest = max(100 * row.ratio for row in outcome.rows)
    axes.set_xlim(0, max(160, 1.7 * min(longest, PERCENT_MAX)))
    axes.set_title("Reached of the ceiling; the marks are targets")
    cut = f"; bars are cut at {PERCENT_MAX}" if longest > PERCENT_MAX else ""
    axes.set_xlabel(f"% of the ceiling at the same size{cut}")


def _reached(row: Row) -> str:
    facts = row.as_dict()
    rate = f"{facts['gbps']:.1f} GB/s, " if _moves(row) else ""
    return f"{row.ratio:.0%}: {rate}p50 {_time_text(facts['ms_p50'])} ({row.ceiling})"


def _moves(row: Row) -> bool:
    return row.case.call_bytes > 0 and row.case.op != "view"


def _draw_latency(axes: Axes, outcome: Outcome) -> None:
    for row, shade in zip(filter(_is_small, outcome.rows), _shades(), strict=False):
        buckets = histogram(row.store.calls_ns)
        total, seen = sum(count for _, count in buckets), 0
        shares: list[float] = []
        for _, count in buckets:
            seen += count
            shares.append(100 * seen / total)
        bounds = [bound for bound, _ in buckets]
        axes.step(bounds, shares, where="post", linewidth=2, label=row.case.label(), **shade)
    axes.set_xscale("log")
    axes.set_ylim(0, 101)
    axes.set_title("Small calls")
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("% of calls done by then")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _draw_peers(axes: Axes, outcome: Outcome) -> None:
    """Groups of bars: ours first, then the others, on a logarithmic scale."""
    rows = [row for row in outcome.rows if row.peers()]
    names = list(dict.fromkeys(peer["peer"] for row in rows for peer in row.peers()))
    height = 0.8 / (1 + len(names))
    for at, row in enumerate(rows):
        ours = row.as_dict()["ms_p50"]
        axes.barh(at, ours, height, color=BLUE, label="GD2FS" if at == 0 else None)
        for peer in row.peers():
            place = 1 + names.index(peer["peer"])
            colour = PEER_COLOURS[(place - 1) % len(PEER_COLOURS)]
            label = peer["peer"] if at == 0 else None
            axes.barh(at + place * height, peer["ms_p50"], height, color=colour, label=label)
            text = f" {peer['times_ours']:.1f} times ours"
            axes.annotate(text, (peer["ms_p50"], at + place * height), va="center", fontsize=7)
    middle = height * len(names) / 2
    axes.set_yticks([at + middle for at in range(len(rows))], [row.case.label() for row in rows])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(right=3 * axes.get_xlim()[1])
    axes.set_title("Other stores on the same work")
    axes.set_xlabel("milliseconds of one call, median")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _bars(outcome: Outcome) -> int:
    return sum(2 + len(row.peers()) for row in outcome.rows if row.peers())


def _is_small(row: Row) -> bool:
    return row.case.call_bytes < SMALL_BYTES


def _has_peers(outcome: Outcome) -> bool:
    return any(row.peers() for row in outcome.rows)


def _shades() -> list[dict[str, Any]]:
    colours, lines = (BLUE, INK, GREY), ("-", "--", ":")
    return [{"color": colour, "linestyle": line} for line in lines for colour in colours]


def _time_text(milliseconds: float) -> str:
    return f"{milliseconds * 1000:.0f} µs" if milliseconds < 1 else f"{milliseconds:.1f} ms"
