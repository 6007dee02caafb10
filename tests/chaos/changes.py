"""Changes: what each call on a file may do to its bytes, and which of them one read may show.

All that is used are the moments at which calls began and ended. A change that ended before
another began comes before it; two whose times overlap may come in either order. One that did not
succeed may be applied or not, but never over one that began after its call had ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaos.operation import Record

FILE_END = 1 << 62  # past any byte
WRITERS = ("write", "append", "put")
CHANGES = (*WRITERS, "create", "truncate", "unlink")

Range = tuple[int, int]  # begin, end


def overlap(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def written_by(change: Record) -> Range | None:
    """The bytes that ``change`` gives; None: none, or an append whose place is not known."""
    if change.kind == "write":
        return change.offset, change.offset + change.length
    if change.kind == "put":
        return 0, change.length
    if change.kind == "append" and change.value is not None:
        return change.value, change.value + change.length
    return None


def emptied_by(change: Record) -> Range | None:
    """The bytes that ``change`` may take away: after it they are holes, or past the end."""
    if change.kind in ("create", "unlink"):  # a create empties what was lost
        return 0, FILE_END
    if change.kind in ("put", "truncate"):
        return change.length, FILE_END
    return None


def replaced_by(change: Record) -> list[Range]:
    """The bytes whose older writers nobody may see once ``change`` is acknowledged."""
    if change.kind == "create":  # what is there stays
        return []
    return [each for each in (written_by(change), emptied_by(change)) if each is not None]


@dataclass(slots=True)
class _Hiding:
    """An acknowledged change, and what it hides."""

    change: Record
    ranges: list[Range]


class FileChanges:
    """All changes of one path, in order of their begins."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.all = sorted(
            (record for record in records if record.kind in CHANGES), key=lambda r: r.start_ns
        )
        self.by_number = {change.number: change for change in self.all}
        self.acknowledged = [change for change in self.all if change.is_acknowledged]
        self._hiding = [_Hiding(change, replaced_by(change)) for change in self.acknowledged]
        self._starts = [change.start_ns for change in self.acknowledged]

    def hider(self, since_ns: int, before_ns: int, place: Range) -> Record | None:
        """An acknowledged change of bytes of ``place`` that began after the one moment and ended
        before the other."""
        for entry in self._hiding[bisect_left(self._starts, since_ns + 1) :]:
            if entry.change.start_ns >= before_ns:
                break
            if entry.change.end_ns < before_ns and any(overlap(r, place) for r in entry.ranges):
                return entry.change
        return None

    def overwriter(self, since_ns: int, before_ns: int, place: Range) -> Record | None:
        """As ``hider``, of those that leave bytes in all of ``place``."""
        for change in self.acknowledged[bisect_left(self._starts, since_ns + 1) :]:
            written = written_by(change)
            if written and change.end_ns < before_ns and overlap(written, place):
                return change
        return None

    def may_be_emptied(self, since_ns: int, until_ns: int, place: Range) -> bool:
        """Whether a change that may lie between the two moments may empty all of ``place``."""
        return any(
            change.end_ns >= since_ns and change.start_ns <= until_ns and _holds(emptied, place)
            for change, emptied in self._emptying()
        )

    def may_be_removed(self, since_ns: int, until_ns: int, but: Record) -> bool:
        """Whether the file may have been unlinked in between, by whatever outcome."""
        return any(
            change.kind == "unlink"
            and change is not but
            and change.end_ns >= since_ns
            and change.start_ns <= until_ns
            for change in self.all
        )

    def filler(self, read: Record, place: Range) -> Record | None:
        """An acknowledged change because of which ``place`` can be no hole in ``read``."""
        moments = [-1]  # at first nothing was written
        moments += [
            change.end_ns
            for change, emptied in self._emptying()
            if change.start_ns <= read.end_ns and _holds(emptied, place)
        ]
        return self.overwriter(max(moments), read.start_ns, place)

    def may_reach(self, read: Record, end: int) -> bool:
        """Whether the file may have ``end`` bytes: somebody wrote that far, and nobody cut it."""
        for change in self.all:
            if change.kind not in WRITERS or change.start_ns > read.end_ns:
                continue
            written = written_by(change)
            if written is None or written[1] >= end:
                place = (end - 1, end)
                if self._cutter(change.end_ns, read.start_ns, place) is None:
                    return True
        return False

    def cuts(self) -> list[int]:
        """Every border of any change: between two of them, all bytes fare alike."""
        ranges = [written_by(change) for change in self.all]
        ranges += [emptied_by(change) for change in self.all]
        return sorted({edge for each in ranges if each for edge in each})

    def _cutter(self, since_ns: int, before_ns: int, place: Range) -> Record | None:
        for change in self.acknowledged[bisect_left(self._starts, since_ns + 1) :]:
            emptied = emptied_by(change) if change.kind != "create" else None
            if emptied and change.end_ns < before_ns and overlap(emptied, place):
                return change
        return None

    def _emptying(self) -> list[tuple[Record, Range]]:
        pairs = ((change, emptied_by(change)) for change in self.all)
        return [(change, emptied) for change, emptied in pairs if emptied]


def _holds(outer: Range, inner: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def pieces_of(place: Range, cuts: Sequence[int]) -> Iterable[Range]:
    """``place``, cut at every edge that lies in it."""
    begin, end = place
    inner = [cut for cut in cuts if begin < cut < end]
    return zip([begin, *inner], [*inner, end], strict=True)
