"""What a screen of `gd2fs top` holds."""

from __future__ import annotations

import pytest
from dashboard.simulated import SimulatedCluster
from rich.console import Console

from gd2fs.cli.top_screen import SORTS, View, plain, screen
from gd2fs.cli.units import format_ago, format_count, format_rate, format_share


def drawn(columns: int, lines: int, count: int = 1000, **view: object) -> list[str]:
    cluster = SimulatedCluster(count)
    cluster.look()
    console = Console(width=columns, height=lines, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(screen(cluster.look(), View(**view), columns, lines))
    return capture.get().rstrip("\n").split("\n")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (200, 60), (44, 24)])
def test_a_screen_is_as_large_as_its_terminal(columns, lines):
    shown = drawn(columns, lines)

    assert len(shown) <= lines and max(map(len, shown)) <= columns
    assert "q quit" in shown[-1]


def test_a_narrow_screen_has_the_columns_that_matter_most():
    [titles] = [line for line in drawn(60, 24) if line.startswith("node ")]

    assert titles.split()[:4] == ["node", "state", "memory", "read"]


@pytest.mark.parametrize("sort", SORTS)
def test_nodes_are_sorted_and_silent_ones_stand_last(sort):
    shown = drawn(200, 300, 200, sort=sort)
    nodes = [line.split() for line in shown if line.startswith("node-")]

    assert len(nodes) == 200
    assert sort == "name" or {words[1] for words in nodes[-2:]} == {"silent"}


def test_scrolling_ends_with_the_last_node():
    shown = drawn(120, 30, first=5000)

    assert [line.split()[0] for line in shown if line.startswith("node-")][-1] == "node-999"


def test_a_plain_view_has_all_nodes():
    cluster = SimulatedCluster(200)
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(plain(cluster.look(), View(), 200))

    assert capture.get().count("\nnode-") == 200


def test_what_is_wrong_is_at_the_end_in_words():
    text = "\n".join(drawn(120, 40))

    assert "! node-096, node-193, node-290, node-387 and 6 more: no report" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (format_rate(None), "-"),
        (format_rate(0), "0 B/s"),
        (format_rate(999.4), "999 B/s"),
        (format_rate(999_900), "1.00 MB/s"),
        (format_rate(12_345_678_901), "12.3 GB/s"),
        (format_count(999), "999"),
        (format_count(12_345), "12.3k"),
        (format_share(0.9999), "99.9 %"),
        (format_share(1), "100 %"),
        (format_share(None), "-"),
        (format_ago(125), "2 min"),
    ],
)
def test_numbers_are_short(value, text):
    assert value == text
