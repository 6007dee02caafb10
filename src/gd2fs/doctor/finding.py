"""Finding: one thing that was looked at, and what to do where it is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How bad it is. From ``WARNING`` on the command's status is 1."""

    OK = 0  # as it should be, or of no matter here
    NOTE = 1  # worth knowing; nothing is worse for it now
    WARNING = 2  # it works, and slower, or only until something happens
    ERROR = 3  # it does not work, or gives away what it must not

    @property
    def word(self) -> str:
        """As it is shown."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        severity: How bad it is.
        found: What there is, in numbers.
        fix: What to type or to write; empty where all is well.
        group: Subject of its check.
        check: Name of its check.
        why: What depends on it.
    """

    severity: Severity
    found: str
    fix: str = ""
    group: str = ""
    check: str = ""
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self) | {"severity": self.severity.word}


def ok(found: str) -> Finding:
    """All is well."""
    return Finding(Severity.OK, found)


def note(found: str, fix: str) -> Finding:
    """Worth knowing."""
    return Finding(Severity.NOTE, found, fix)


def warning(found: str, fix: str) -> Finding:
    """It works, but not as it could."""
    return Finding(Severity.WARNING, found, fix)


def error(found: str, fix: str) -> Finding:
    """It does not work, or must not stay."""
    return Finding(Severity.ERROR, found, fix)


def is_well(findings: Iterable[Finding]) -> bool:
    """Whether there is neither a warning nor an error."""
    return all(each.severity < Severity.WARNING for each in findings)
