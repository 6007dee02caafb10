"""Operation: one call of a client, as it is planned (Step) and as it went (Record)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chaos.content import Run

PAGE_KINDS = ("page_put", "page_get", "page_drop", "page_cool", "page_warm")
NEVER_NS = 1 << 62  # when what has not ended ends

# Outcomes. Of a change `unsure` and `refused` alike may have been applied or not.
OK = "ok"
MISS = "miss"
UNSURE = "unsure"  # it raised Unavailable or Corrupt
KILLED = "killed"  # its process was, before it had an answer
REFUSED = "refused"  # it raised InvalidRequest: no such file, longer than that, no room
CONTENDED = "contended"  # other writers were first, too often


@dataclass(frozen=True, slots=True)
class Step:
    """A planned call.

    Attributes:
        number: Of the first of its names; each further one counts on.
        lane: Which thread of which client does it, one after the other.
        at_s: Not before this, from the start of the load.
        kind: page_put, page_get, page_drop; create, write, append, put, truncate, unlink, read,
            get. cool and warm, of files and pages: out of memory, and into it.
        names: Keys of a batch of pages; else one path.
        offset: Of read and write.
        length: Bytes; of truncate the new size.
    """

    number: int
    lane: int
    at_s: float
    kind: str
    names: tuple[str, ...]
    offset: int = 0
    length: int = 0
    timeout_s: float = 3.0


@dataclass(slots=True)
class Record:
    """What one step did to one name. Times are of CLOCK_MONOTONIC.

    Attributes:
        value: Bytes read, or the offset of an append; None where there is none.
        runs: Whose bytes were read.
    """

    number: int
    kind: str
    name: str
    offset: int
    length: int
    timeout_s: float
    start_ns: int
    end_ns: int = NEVER_NS
    outcome: str = UNSURE  # also of a call that has not ended
    value: int | None = None
    runs: list[Run] = field(default_factory=list)
    error: str = ""

    @property
    def is_acknowledged(self) -> bool:
        return self.outcome == OK

    @property
    def is_of_page(self) -> bool:
        return self.kind in PAGE_KINDS

    @property
    def is_expired(self) -> bool:
        """It took all its time: what it did not get may be there."""
        return self.end_ns - self.start_ns >= int(self.timeout_s * 0.9e9)

    def __str__(self) -> str:
        what = f"#{self.number} {self.kind} {self.name}"
        if self.kind in ("read", "write"):
            what += f" [{self.offset}, {self.offset + self.length})"
        elif self.kind in ("put", "append", "truncate", "page_put"):
            what += f" {self.length} bytes"
        when = f"{self.start_ns / 1e9:.4f} to {self.end_ns / 1e9:.4f}"
        return f"{what}, {when}: {self.outcome}" + (f" ({self.error})" if self.error else "")


def begun(step: Step, start_ns: int) -> list[Record]:
    """Records of a step that has begun, one for each of its names."""
    return [
        Record(
            step.number + index,
            step.kind,
            name,
            step.offset,
            step.length,
            step.timeout_s,
            start_ns,
        )
        for index, name in enumerate(step.names)
    ]


def answer_of(record: Record) -> list[Any]:
    """What came of a record, as a worker writes it down."""
    runs = [[run.at, run.length, run.number, run.origin] for run in record.runs]
    return [record.end_ns, record.outcome, record.value, runs, record.error]


def take_answer(record: Record, answer: list[Any]) -> None:
    """Fill in what ``answer_of`` made."""
    record.end_ns, record.outcome, record.value, runs, record.error = answer
    record.runs = [Run(*run) for run in runs]
