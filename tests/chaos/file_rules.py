"""File rules: what a read of a file may show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from chaos.changes import (
    FILE_END,
    WRITERS,
    FileChanges,
    Range,
    overlap,
    pieces_of,
    written_by,
)
from chaos.content import HOLE, Run
from chaos.history import History
from chaos.operation import OK, Record
from chaos.violation import Violation


def check_path(history: History, path: str, records: list[Record]) -> Iterator[Violation]:
    """All violations that the records of one path show."""
    changes = FileChanges(records)
    reads = [record for record in records if record.kind in ("read", "get")]
    hits = [read for read in reads if read.outcome == OK]
    cuts = changes.cuts()
    for read in hits:
        yield from _check_runs(changes, read, cuts)
        yield from _check_size(changes, read)
        yield from _check_whole(changes, read, history.chunk_bytes)
    yield from _check_places(changes, hits)
    yield from _check_agreement(changes, hits)


# ---- each run by itself --------------------------------------------------------------------------


def _check_runs(changes: FileChanges, read: Record, cuts: list[int]) -> Iterator[Violation]:
    for run in read.runs:
        place = (run.at, run.end)
        if run.number == HOLE:
            for piece in pieces_of(place, cuts):
                yield from _check_hole(changes, read, piece)
        elif (writer := changes.by_number.get(run.number)) is None or not _fits(writer, run):
            yield Violation("foreign bytes", f"{_said(run)} that no such change wrote", (read,))
        elif writer.start_ns > read.end_ns:
            yield Violation("bytes from the future", _said(run), (read, writer))
        elif hider := changes.hider(writer.end_ns, read.start_ns, place):
            text = f"{_said(run)}, replaced since by #{hider.number}"
            yield Violation("old bytes", text, (read, writer, hider))


def _check_hole(changes: FileChanges, read: Record, place: Range) -> Iterator[Violation]:
    if filler := changes.filler(read, place):
        text = f"at [{place[0]}, {place[1]})"
        yield Violation("zeros over acknowledged bytes", text, (read, filler))
    elif not changes.may_reach(read, place[1]):
        yield Violation("bytes past the end", f"zeros at [{place[0]}, {place[1]})", (read,))


def _said(run: Run) -> str:
    return f"[{run.at}, {run.end}) of #{run.number}"


def _fits(writer: Record, run: Run) -> bool:
    """Whether ``writer`` has such bytes, and may have them there."""
    if writer.kind not in WRITERS or run.origin + run.length > writer.length:
        return False
    written = written_by(writer)
    return written is None or written[0] == run.at - run.origin


def _check_places(changes: FileChanges, hits: Iterable[Record]) -> Iterator[Violation]:
    """An append without an answer is in one place, whichever that is."""
    seen: dict[int, tuple[int, Record]] = {}
    for read in hits:
        for run in read.runs:
            writer = changes.by_number.get(run.number)
            if writer is None or writer.kind != "append":
                continue
            begin, first = seen.setdefault(run.number, (run.at - run.origin, read))
            if begin != run.at - run.origin:
                text = f"#{run.number} begins at {begin} and at {run.at - run.origin}"
                yield Violation("an append in two places", text, (read, first, writer))


# ---- a read as a whole ---------------------------------------------------------------------------


def _check_size(changes: FileChanges, read: Record) -> Iterator[Violation]:
    """A short read must not end before bytes that were acknowledged and cannot be cut off."""
    assert read.value is not None
    asked = read.length if read.kind == "read" else FILE_END
    if read.value >= asked:
        return
    end = read.offset + read.value
    for change in changes.acknowledged:
        written = written_by(change)
        if written is None or written[1] <= end or change.end_ns >= read.start_ns:
            continue
        lost = (max(end, written[0]), written[1])
        if not changes.may_be_emptied(change.start_ns, read.end_ns, (lost[1] - 1, lost[1])):
            yield Violation(
                "a read ends too early", f"at {end}, before acknowledged bytes", (read, change)
            )
            return


def _check_whole(changes: FileChanges, read: Record, chunk_bytes: int) -> Iterator[Violation]:
    """Who is seen in one chunk, or at all if it was a put, is seen there with all it wrote, but
    for what later changes have replaced."""
    for number in sorted({run.number for run in read.runs}):
        writer = changes.by_number.get(number)
        if writer is None:
            continue
        base = next(run.at - run.origin for run in read.runs if run.number == writer.number)
        for atom in _atoms(writer, base, chunk_bytes):
            if any(run.number == writer.number and _touches(run, atom) for run in read.runs):
                yield from _check_atom(changes, read, writer, atom)


def _atoms(writer: Record, base: int, chunk_bytes: int) -> Iterator[Range]:
    place = (base, base + writer.length)
    if writer.kind == "put":
        yield place
    else:
        yield from pieces_of(place, range(0, place[1], chunk_bytes))


def _check_atom(
    changes: FileChanges, read: Record, writer: Record, atom: Range
) -> Iterator[Violation]:
    for run in read.runs:
        if run.number == writer.number or not _touches(run, atom):
            continue
        other = changes.by_number.get(run.number)
        place = (max(run.at, atom[0]), min(run.end, atom[1]))
        if run.number == HOLE:
            is_torn = not changes.may_be_emptied(
                writer.start_ns, read.end_ns, (place[0], place[0] + 1)
            )
        else:
            is_torn = other is not None and _is_surely_before(other, writer)
        if is_torn:
            seen = tuple(each for each in (read, writer, other) if each is not None)
            yield Violation("a torn change", f"[{place[0]}, {place[1]}) is not of it", seen)


def _is_surely_before(one: Record, other: Record) -> bool:
    """An unanswered change may come late, but not over an acknowledged one."""
    is_known = one.is_acknowledged or other.is_acknowledged
    return one.end_ns < other.start_ns and is_known


def _touches(run: Run, place: Range) -> bool:
    return overlap((run.at, run.end), place)


# ---- reads against each other --------------------------------------------------------------------


def _check_agreement(changes: FileChanges, hits: Iterable[Record]) -> Iterator[Violation]:
    """Of two acknowledged changes that overlap in time, all reads after both show the same one."""
    later_than: dict[tuple[int, int], Record] = {}
    for read in hits:
        for run in read.runs:
            writer = changes.by_number.get(run.number)
            if writer is None or not writer.is_acknowledged or writer.end_ns >= read.start_ns:
                continue
            for other in _beside(changes, writer, read, (run.at, run.end)):
                later_than.setdefault((writer.number, other.number), read)
    for (one, other), read in later_than.items():
        if one < other and (other, one) in later_than:
            involved = (read, later_than[other, one])
            involved += (changes.by_number[one], changes.by_number[other])
            yield Violation("readers disagree", f"which of #{one} and #{other} is last", involved)


def _beside(changes: FileChanges, writer: Record, read: Record, place: Range) -> Iterator[Record]:
    """Acknowledged changes of the same bytes at the same time, over before the read."""
    for other in changes.acknowledged:
        if other.start_ns > writer.end_ns:
            break
        is_beside = other is not writer and other.end_ns >= writer.start_ns
        written = written_by(other)
        if is_beside and other.end_ns < read.start_ns and written and overlap(written, place):
            yield other


def by_path(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records of files by path."""
    paths: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if not record.kind.startswith("page_"):
            paths[record.name].append(record)
    return paths
