"""Chart: the run as pictures, one PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gd2fs.bench.measures import percentile
from gd2fs.drawing import BLUE, GREY, INK, drawing, svg_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gd2fs.bench.load import Played
    from gd2fs.bench.measures import Pair

LABELS = ("A: private caches", "B: GD2FS")
FILE_NAME = "topology.png"


def write_chart(pair: Pair, instances: int, folder: Path) -> Path:
    """Draw a run into ``folder``, which is made if it is not there; the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    with _drawn(pair, instances) as figure:
        figure.savefig(path, dpi=150)
    return path


def chart_svg(pair: Pair, instances: int) -> str:
    """The same picture as a text that a page can hold."""
    with _drawn(pair, instances) as figure:
        return svg_of(figure)


@contextmanager
def _drawn(pair: Pair, instances: int) -> Iterator[Figure]:
    with drawing(2, 2, height=7.6) as (figure, axes):
        _draw_ttft_by_turn(axes[0][0], pair)
        _draw_ttft_shares(axes[0][1], pair)
        _draw_computed(axes[1][0], pair)
        _draw_progress(axes[1][1], pair)
        figure.suptitle(_heading(pair, instances), x=0.01, ha="left", fontsize=12, weight="bold")
        yield figure


def _heading(pair: Pair, instances: int) -> str:
    faster = pair.after.requests_per_s / pair.before.requests_per_s
    sooner = pair.after.ttft_s.mean / pair.before.ttft_s.mean
    return (
        f"{instances} engines, random balancer. With GD2FS: {faster:.1f} times the "
        f"requests per second, the first token in {sooner:.0%} of the time"
    )


def _arms(pair: Pair) -> list[tuple[str, str, Sequence[Played]]]:
    played = (pair.played_before, pair.played_after)
    return list(zip(LABELS, (GREY, BLUE), played, strict=True))


def _draw_ttft_by_turn(axes: Axes, pair: Pair) -> None:
    for side, (label, colour, played) in zip((-1, 1), _arms(pair), strict=True):
        turns = sorted({each.turn.index for each in played})
        times = [[p.answer.ttft_s for p in played if p.turn.index == turn] for turn in turns]
        at = [turn + 1 + side * 0.19 for turn in turns]
        axes.bar(at, [_mean(each) for each in times], 0.34, color=colour, label=label)
        for place, each in zip(at, times, strict=True):
            axes.plot([place] * len(each), each, ".", color=INK, markersize=3, alpha=0.5)
    axes.set_title("Time to first token by turn: mean and every request")
    axes.set_xlabel("turn of the conversation")
    axes.set_ylabel("seconds")
    axes.set_xticks([turn + 1 for turn in turns])
    axes.legend(frameon=False)


def _draw_ttft_shares(axes: Axes, pair: Pair) -> None:
    for row, (_, colour, played) in enumerate(_arms(pair)):
        times = sorted(p.answer.ttft_s for p in played if p.turn.index)
        shares = [100 * (at + 1) / len(times) for at in range(len(times))]
        axes.step([0, *times], [0, *shares], where="post", color=colour, linewidth=2)
        mark = percentile(times, 95)
        text = f"P95 {mark:.1f} s" if mark >= 1 else f"P95 {1000 * mark:.0f} ms"
        below = (4, -13 - 12 * row)  # the two may lie at the same time
        axes.plot(mark, 95, "o", color=colour)
        axes.annotate(text, (mark, 95), below, textcoords="offset points", color=colour)
    axes.set_title("Time to first token, turns after the first")
    axes.set_xlabel("seconds")
    axes.set_ylabel("% of requests answered by then")
    axes.set_ylim(0, 101)
    axes.set_xlim(left=0)


def _draw_computed(axes: Axes, pair: Pair) -> None:
    for row, (_, colour, played) in enumerate(_arms(pair)):
        again = sum(p.history_recomputed for p in played)
        new = sum(p.answer.computed_tokens for p in played) - again
        axes.barh(row, new, color=colour, height=0.55)
        axes.barh(row, again, left=new, color="none", edgecolor=colour, hatch="////", height=0.55)
        label = f"  {new:,} new\n  {again:,} of history again"
        axes.annotate(label, (new + again, row), va="center", color=INK)
    axes.set_title("Prompt tokens computed")
    axes.set_yticks(range(len(LABELS)), LABELS)
    axes.invert_yaxis()
    axes.set_xlim(right=1.35 * max(axes.get_xlim()[1], 1))
    axes.set_xlabel("tokens")
    axes.locator_params(axis="x", nbins=5)


def _draw_progress(axes: Axes, pair: Pair) -> None:
    for label, colour, played in _arms(pair):
        start = min(each.answer.sent_s for each in played)
        ends = sorted(each.answer.end_s - start for each in played)
        axes.step([0, *ends], range(len(ends) + 1), where="post", color=colour, linewidth=2)
        axes.annotate(
            f"{label[0]}: {len(ends) / ends[-1]:.2f}/s",
            (ends[-1], len(ends)),
            (0, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color=colour,
        )
    axes.set_title("Requests answered")
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel("requests")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.12 * max(axes.get_ylim()[1], 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
