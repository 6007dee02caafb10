"""Check: a function that looks at one thing, with a name, and the reason that it matters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from gd2fs.doctor.finding import Finding, note
from gd2fs.doctor.subject import Subject

Look = Callable[[Subject], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look at.

    Attributes:
        name: Of the check, alone of all.
        why: What depends on it.
        look: Gives what it found; nothing where it does not apply.
    """

    name: str
    why: str
    look: Look

    @property
    def well(self) -> str:
        """What is as it should be."""
        return (self.look.__doc__ or "").strip()

    def run(self, subject: Subject, group: str) -> list[Finding]:
        """What it found, with group, name and reason."""
        return [
            replace(each, group=group, check=self.name, why=self.why)
            for each in self._look(subject)
        ]

    def _look(self, subject: Subject) -> list[Finding]:
        try:
            return list(self.look(subject))
        except (OSError, ValueError, LookupError) as cause:  # a file says what nobody expects
            return [note(f"cannot tell: {cause}", "look yourself; tell us what the file says")]


def check(name: str, why: str) -> Callable[[Look], Check]:
    """Make a check of a function that yields findings."""
    return lambda look: Check(name, why, look)


def checks_in(module: ModuleType) -> Sequence[Check]:
    """Those of one file, in their order there."""
    return [each for each in vars(module).values() if isinstance(each, Check)]
