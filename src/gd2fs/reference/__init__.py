"""Reference: the pages of docs/reference that are made of the code, so that they cannot differ.

Each page is a function without arguments that gives its text. ``python -m gd2fs.reference`` writes
them; a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gd2fs.metrics import reference as metric_list
from gd2fs.reference import checks, command_line, error_list, setting_list

PAGES: Mapping[str, Callable[[], str]] = {
    "cli": command_line.page,
    "settings": setting_list.page,
    "errors": error_list.page,
    "doctor": checks.page,
    "metrics": metric_list.text,
}

__all__ = ["PAGES"]
