"""Drawing: pictures of one look, as text that a page can hold."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

WIDTH_INCHES = 11
GREY, BLUE, INK = "#9a9a94", "#1f6fb2", "#2b2b2b"
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "svg.hashsalt": "gd2fs",  # the same run makes the same page
}


@contextmanager
def drawing(
    rows: int, columns: int, *, height: float, row_heights: Sequence[float] | None = None
) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes, as rows and columns; closed at the end. Needs matplotlib.

    Args:
        rows: Of axes.
        columns: Of axes.
        height: Of all, in inches.
        row_heights: Of each row, relative to the others; none: all alike.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            rows,
            columns,
            figsize=(WIDTH_INCHES, height),
            height_ratios=row_heights,
            layout="constrained",
            squeeze=False,
        )
        try:
            yield figure, axes
        finally:
            pyplot.close(figure)


def svg_of(figure: Any) -> str:
    """The picture as text."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
