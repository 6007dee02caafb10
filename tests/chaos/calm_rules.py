"""Calm rules: while nothing is wrong calls succeed, and what was acknowledged can be read."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.changes import FILE_END, FileChanges, Range, overlap, written_by
from chaos.history import History, S
from chaos.operation import MISS, REFUSED, UNSURE, Record
from chaos.violation import Violation

PATIENT_S = 3.0  # a call with less time may fail for want of it
SLACK_NS = 2 * S  # of a deadline, on a machine that has other things to do


def check_calls(history: History) -> Iterator[Violation]:
    """Every call ends by its deadline, and well while nothing is wrong."""
    for record in history.records:
        if record.end_ns - record.start_ns > record.timeout_s * S + SLACK_NS:
            yield Violation("past its deadline", f"of {record.timeout_s} s", (record,))
        is_calm = history.is_calm(record.start_ns, record.end_ns) and history.is_roomy
        is_patient = record.timeout_s >= PATIENT_S
        if is_calm and record.outcome == UNSURE and is_patient:
            yield Violation("failed while nothing was wrong", record.error, (record,))


def check_presence(history: History, records: list[Record]) -> Iterator[Violation]:
    """Of one path: a file that must be there is, and so are bytes that must."""
    changes = FileChanges(records)
    for record in records:
        is_absent = record.outcome == MISS and record.kind in ("read", "get")
        is_refused = record.outcome == REFUSED and record.kind in ("write", "append")
        if not (is_absent or is_refused) or not history.is_calm(record.start_ns, record.end_ns):
            continue
        if is_refused and _is_replaced_meanwhile(changes, record):
            continue
        keeper = _keeper(history, changes, record)
        if keeper and (is_refused or _are_bytes_safe(history, changes, record)):
            what = record.error if is_refused else "acknowledged, and nothing was wrong"
            yield Violation("a lost file", what, (record, keeper))


def _keeper(history: History, changes: FileChanges, record: Record) -> Record | None:
    """A change that left a file, which must still be there when ``record`` asks."""
    for change in changes.acknowledged:
        if change.kind == "unlink" or change.end_ns >= record.start_ns:
            continue
        if changes.may_be_removed(change.start_ns, record.end_ns, record):
            continue
        if history.is_safe(change, record.end_ns):
            return change
    return None


def _is_replaced_meanwhile(changes: FileChanges, write: Record) -> bool:
    """Whether a put may have made another file of that path while ``write`` went on: then it is
    refused, though there was a file all the time."""
    return any(
        change.kind == "put" and change.start_ns <= write.end_ns and change.end_ns >= write.start_ns
        for change in changes.all
    )


def _are_bytes_safe(history: History, changes: FileChanges, read: Record) -> bool:
    """Whether all changes whose bytes may be seen were acknowledged in peace, and none lost."""
    asked: Range = (0, FILE_END)
    if read.kind == "read":
        asked = (read.offset, read.offset + read.length)
    for change in changes.all:
        written = written_by(change)
        if change.kind in ("create", "truncate", "unlink") or change.start_ns > read.end_ns:
            continue
        place = written or (0, FILE_END)
        if not overlap(place, asked) or _is_hidden(changes, change, read, place):
            continue
        if not history.is_safe(change, read.end_ns):
            return False
    return True


def _is_hidden(changes: FileChanges, change: Record, read: Record, place: Range) -> bool:
    """Whether acknowledged changes have replaced all that ``change`` wrote, taken one by one."""
    for hider in changes.acknowledged:
        if hider.start_ns <= change.end_ns or hider.end_ns >= read.start_ns:
            continue
        if hider.kind in ("put", "unlink"):
            return True
        begin, end = hider.offset, hider.offset + hider.length
        if hider.kind == "write" and begin <= place[0] and place[1] <= end:
            return True
    return False
