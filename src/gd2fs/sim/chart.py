"""Chart: a run as pictures, one SVG that a page can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gd2fs.drawing import BLUE, GREY, INK, drawing, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gd2fs.sim.playing import Played

COLOURS = {"private": GREY, "shared": BLUE}
TIERS = (
    ("device", "#d9a441", "device"),
    ("host", GREY, "own host memory"),
    ("memory", BLUE, "GD2FS, memory"),
    ("disk", "#7fb2dd", "GD2FS, NVMe"),
)


def charts_svg(played: Sequence[Played], figures: Sequence[dict[str, Any]]) -> str:
    """Hits by tier and over time; with engines that take time also first tokens and load."""
    has_times = not played[0].fleet.engine.is_instant
    rows = 2 if has_times else 1
    with drawing(rows, 2, height=3.8 * rows) as (figure, axes):
        _draw_tiers(axes[0][0], figures)
        _draw_hits_over_time(axes[0][1], played)
        if has_times:
            _draw_first_tokens(axes[1][0], played)
            _draw_busy(axes[1][1], played)
        return svg_of(figure)


def _draw_tiers(axes: Axes, figures: Sequence[dict[str, Any]]) -> None:
    names = [each["topology"] for each in figures]
    left = np.zeros(len(names))
    for tier, colour, label in TIERS:
        shares = np.array([100 * each["hit_rate_by_tier"][tier] for each in figures])
        if shares.any():
            axes.barh(names, shares, left=left, color=colour, height=0.55, label=label)
        left += shares
    for row, total in enumerate(left):
        axes.annotate(f" {total:.1f} %", (total, row), va="center", color=INK)
    axes.set_title("Blocks found, by place")
    axes.set_xlabel("% of the prompts' blocks")
    axes.set_xlim(0, max(1.0, 1.3 * float(left.max())))
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="center right")


def _draw_hits_over_time(axes: Axes, played: Sequence[Played]) -> None:
    for each in played:
        asked, found = each.bins[:, 1], each.bins[:, 2]
        has_any = asked > 0
        at = (np.arange(len(asked)) + 0.5) * each.bin_s / _unit(each)[0]
        topology = each.fleet.topology
        axes.plot(
            at[has_any],
            100 * found[has_any] / asked[has_any],
            color=COLOURS[topology],
            linewidth=2,
            label=topology,
        )
    axes.set_title("Blocks found, over time")
    axes.set_xlabel(_unit(played[0])[1])
    axes.set_ylabel("% of blocks")
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)


def _draw_first_tokens(axes: Axes, played: Sequence[Played]) -> None:
    for row, each in enumerate(played):
        times = np.sort(each.first_token_s)
        shares = 100 * (np.arange(len(times)) + 1) / len(times)
        some = np.unique(np.linspace(0, len(times) - 1, 400).astype(int))  # enough for the eye
        colour = COLOURS[each.fleet.topology]
        axes.plot(times[some], shares[some], color=colour, linewidth=2, label=each.fleet.topology)
        mark = times[int(np.ceil(0.95 * len(times))) - 1]
        axes.plot(mark, 95, "o", color=colour)
        axes.annotate(
            f"P95 {mark:.3g} s", (mark, 95), (4, -13 - 12 * row), textcoords="offset points",
            color=colour,
        )  # fmt: skip
    axes.set_title("Time to first token")
    axes.set_xlabel("seconds")
    axes.set_xscale("log")
    axes.set_ylabel("% of requests by then")
    axes.set_ylim(0, 101)
    axes.legend(frameon=False, loc="lower right")


def _draw_busy(axes: Axes, played: Sequence[Played]) -> None:
    for each in played:
        at = (np.arange(len(each.bins)) + 0.5) * each.bin_s / _unit(each)[0]
        busy = 100 * each.bins[:, 5] / (each.bin_s * each.fleet.instances)
        axes.plot(
            at, busy, color=COLOURS[each.fleet.topology], linewidth=2, label=each.fleet.topology
        )
    axes.set_title("Engines busy, over time")
    axes.set_xlabel(_unit(played[0])[1])
    axes.set_ylabel("% of all instances' time")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.legend(frameon=False)


def _unit(played: Played) -> tuple[float, str]:
    longest = len(played.bins) * played.bin_s
    for seconds, name in ((3600.0, "hours"), (60.0, "minutes")):
        if longest >= 3 * seconds:
            return seconds, name
    return 1.0, "seconds"
