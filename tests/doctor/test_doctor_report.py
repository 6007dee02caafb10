"""What is written for a program to read has a line for each thing that is said."""

from __future__ import annotations

import io

from rich.console import Console

from gd2fs.doctor import Severity
from gd2fs.doctor.finding import Finding
from gd2fs.doctor.report import print_report

LONG = " ".join(["word"] * 60)
FINDING = Finding(Severity.WARNING, f"found {LONG}", f"fix {LONG}", "memory", "swap", f"why {LONG}")


def lines_of(*, is_terminal: bool) -> list[str]:
    written = io.StringIO()
    print_report([FINDING], Console(file=written, width=80, force_terminal=is_terminal))
    return written.getvalue().splitlines()


def test_a_pipe_gets_whole_lines_without_blanks_behind():
    lines = lines_of(is_terminal=False)

    assert f"  warning swap: found {LONG}" in lines
    assert [each for each in lines if each != each.rstrip()] == []


def test_a_terminal_gets_lines_that_fit():
    assert len(lines_of(is_terminal=True)) > 2 * len(lines_of(is_terminal=False))
