"""Made histories: written by hand in a few lines, for the tests of the checker.

Times are whole numbers, one second each, so every two calls are clearly apart or overlap.
"""

from __future__ import annotations

from typing import Any

from chaos.checker import check
from chaos.content import Run
from chaos.history import History, Outage, S
from chaos.operation import MISS, OK, Record

PATH, KEY = "/chaos/file", "key"


class Made:
    """A history in the making. Every call adds one record and gives it back."""

    def __init__(self, **settings: Any) -> None:
        self.history = History(**settings)
        self._next = 1

    def do(self, kind: str, start: float, end: float, outcome: str = OK, **settings: Any) -> Record:
        """A call from one moment to another. ``offset``, ``length``, ``value`` as in Record."""
        is_page = kind.startswith("page_")
        record = Record(
            number=self._next,
            kind=kind,
            name=settings.pop("name", KEY if is_page else PATH),
            offset=settings.pop("offset", 0),
            length=settings.pop("length", 0),
            timeout_s=settings.pop("timeout_s", 30.0),
            start_ns=int(start * S),
            end_ns=int(end * S),
            outcome=outcome,
            **settings,
        )
        self._next += 1
        self.history.records.append(record)
        return record

    def put(self, start: float, end: float, length: int = 64, outcome: str = OK) -> Record:
        return self.do("put", start, end, outcome, length=length)

    def write(
        self, start: float, end: float, offset: int, length: int, outcome: str = OK
    ) -> Record:
        return self.do("write", start, end, outcome, offset=offset, length=length)

    def read(
        self, start: float, end: float, *parts: tuple[int, int, int], offset: int = 0, **more: Any
    ) -> Record:
        """A read that shows ``parts``, each (bytes, number, origin), and then the file's end."""
        runs, at = [], offset
        for length, number, origin in parts:
            runs.append(Run(at, length, number, origin))
            at += length
        more.setdefault("length", 1 << 20)
        return self.do("read", start, end, value=at - offset, runs=runs, offset=offset, **more)

    def miss(self, start: float, end: float, kind: str = "read") -> Record:
        return self.do(kind, start, end, MISS, length=1 << 20)

    def page(self, start: float, end: float, size: int, *parts: tuple[int, int, int]) -> Record:
        runs, at = [], 0
        for length, number, origin in parts:
            runs.append(Run(at, length, number, origin))
            at += length
        return self.do("page_get", start, end, value=size, runs=runs)

    def outage(self, kind: str, start: float, end: float, target: str = "n0") -> None:
        self.history.outages.append(Outage(kind, target, int(start * S), int(end * S)))

    @property
    def rules(self) -> list[str]:
        """Which rules the checker says are broken."""
        return [violation.rule for violation in check(self.history)]
