"""Report: findings for a person, grouped by subject; what is well takes one line of each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gd2fs.doctor.finding import Finding, Severity

STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "bold yellow",
    Severity.ERROR: "bold red",
}
WORD_CELLS = 7  # of `warning`
WIDTH_MAX = 110  # longer lines are hard to read
LINE_CELLS_MAX = 1000  # of what no person looks at: a finding is not broken up


def print_report(findings: Sequence[Finding], console: Console, *, is_full: bool = False) -> None:
    """Write them all.

    Args:
        findings: In the order of their groups.
        console: Where to; on a terminal as narrow as it may be, else a line for each thing said.
        is_full: What is well in full too, each with a line of its own.
    """
    if console.is_terminal:
        _print(findings, console, min(console.width, WIDTH_MAX), is_full)
        return
    console.width = LINE_CELLS_MAX
    with console.capture() as captured:
        _print(findings, console, LINE_CELLS_MAX, is_full)
    lines = captured.get().splitlines()
    console.file.write("".join(f"{line.rstrip()}\n" for line in lines))  # cells are filled up


def _print(findings: Sequence[Finding], console: Console, width: int, is_full: bool) -> None:
    for group, members in groupby(findings, key=lambda each: each.group):
        console.print(Text(group, style="bold"))
        table = Table.grid(padding=(0, 1), expand=False)
        table.add_column(width=WORD_CELLS, no_wrap=True)
        table.add_column(overflow="fold")
        for word, text in _rows(list(members), is_full):
            table.add_row(word, text)
        console.print(Padding(table, (0, 0, 0, 2), expand=False), width=width)
        console.print()
    console.print(_summary(findings))


def counts_of(findings: Iterable[Finding]) -> dict[str, int]:
    """How many of each severity there are, the worst first."""
    counts = Counter(each.severity for each in findings)
    return {each.word: counts[each] for each in sorted(Severity, reverse=True)}


def _rows(members: Sequence[Finding], is_full: bool) -> Iterator[tuple[Text, RenderableType]]:
    well = [each for each in members if each.severity is Severity.OK]
    for each in sorted(members, key=lambda each: -each.severity):
        if each.severity is not Severity.OK or is_full:
            yield Text(each.severity.word, style=STYLES[each.severity]), _lines(each)
    if well and not is_full:
        names = ", ".join(dict.fromkeys(each.check for each in well))
        yield Text("ok", style=STYLES[Severity.OK]), Text(names, style="dim")


def _lines(finding: Finding) -> RenderableType:
    found = Text.assemble((f"{finding.check}: ", "bold"), finding.found)
    if finding.severity is Severity.OK:
        return found
    why = Text.assemble(("why: ", "dim"), (finding.why, "dim"))
    return Group(found, why, Text.assemble(("fix: ", "cyan"), finding.fix))


def _summary(findings: Sequence[Finding]) -> Text:
    counts = counts_of(findings)
    parts = [
        (f"{count} {word}{'s' if count != 1 and word != 'ok' else ''}", STYLES[severity])
        for severity, (word, count) in zip(
            sorted(Severity, reverse=True), counts.items(), strict=True
        )
    ]
    return Text(", ").join(Text(words, style=style) for words, style in parts)
