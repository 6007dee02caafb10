"""Checker: holds a history against every rule.

Bytes: a read shows for each range bytes that were acknowledged and not replaced since, or a
whole piece of a change in flight or unanswered, zeros where nobody wrote, or is a miss.
Pages: a get gives one whole value that was put under its key, or is a miss. Calm: what was
acknowledged while nothing was wrong can be read, while nothing is wrong, unless more nodes lost
their memory than there were further copies. Time: every call ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaos.calm_rules import check_calls, check_presence
from chaos.file_rules import by_path, check_path
from chaos.history import History
from chaos.page_rules import by_key, check_key
from chaos.violation import Violation


def check(history: History) -> list[Violation]:
    """Everything in ``history`` that must never be, in order of rules."""
    return list(_check(history))


def _check(history: History) -> Iterator[Violation]:
    yield from check_calls(history)
    for path, records in by_path(history.records).items():
        yield from check_path(history, path, records)
        yield from check_presence(history, records)
    for records in by_key(history.records).values():
        yield from check_key(history, records)
