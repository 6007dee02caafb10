"""Report: a fleet's table for people, its page, and what has to be said beside the figures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from gd2fs.bench.fleet.outcome import FleetOutcome, hits_by_round, ideal_by_round
from gd2fs.bench.measures import agreement
from gd2fs.bench.page import write_page
from gd2fs.bench.report import explanations, table_of


def print_fleet(outcome: FleetOutcome, console: Console) -> None:
    """Write both tables and the remarks."""
    console.print(table_of(outcome.title, outcome.pairs))
    table = Table(title="prompt tokens found in a cache, by round", title_justify="left")
    for heading in ("round", "A", "B", "all of the history"):
        table.add_column(heading, justify="right")
    for cells in rounds_of(outcome):
        table.add_row(*cells)
    console.print(table)
    for line in remarks_of_fleet(outcome):
        console.print(line, markup=False, soft_wrap=True)


def write_fleet_page(outcome: FleetOutcome, file: Path) -> None:
    """Write the page."""
    write_page(
        file,
        title=outcome.title,
        pairs=outcome.pairs,
        instances=outcome.instances,
        drawn=outcome.middle,
        remarks=remarks_of_fleet(outcome),
        facts=outcome.as_dict(),
        rounds=rounds_of(outcome),
    )


def rounds_of(outcome: FleetOutcome) -> list[tuple[str, ...]]:
    """Round, A, B, and what a cache of everything would find."""
    pair = outcome.middle
    shares = (
        hits_by_round(pair.played_before),
        hits_by_round(pair.played_after),
        ideal_by_round(pair.played_after),
    )
    return [
        (str(index), *(f"{share:.1%}" for share in row))
        for index, row in enumerate(zip(*shares, strict=True))
    ]


def remarks_of_fleet(outcome: FleetOutcome) -> list[str]:
    """What the tables cannot say, one line each."""
    lines = [
        "first token and history: turns after the first; "
        "history: what a cache could hold of earlier turns",
        *explanations(outcome.pairs),
    ]
    count = sum(len(pair.played_after) for pair in outcome.pairs)
    right = "the reference's" if outcome.has_reference else "A's"
    differ = outcome.disagreeing
    lines.append(
        f"texts: {differ} of {count} answers of B differ from {right}"
        if differ
        else f"texts: all {count} answers of B are {right}, token for token"
    )
    if outcome.has_reference:
        shares = [agreement(pair.played_before, pair.played_after) for pair in outcome.pairs]
        lines.append(f"texts: {min(shares):.1%} of A's answers are the same as B's")
    if len(outcome.pairs) > 1:
        speedups = [p.after.requests_per_s / p.before.requests_per_s for p in outcome.pairs]
        lines.append(
            f"runs: {len(outcome.pairs)}; requests per second, B/A: "
            + ", ".join(f"{each:.2f}" for each in speedups)
        )
    return [*lines, *outcome.remarks]
