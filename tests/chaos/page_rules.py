"""Page rules: what a get of a page may give, and when it must give something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from chaos.history import History
from chaos.operation import MISS, OK, UNSURE, Record
from chaos.violation import Violation


def check_key(history: History, records: list[Record]) -> Iterator[Violation]:
    """All violations that the records of one key show."""
    puts = {record.number: record for record in records if record.kind == "page_put"}
    drops = [record for record in records if record.kind == "page_drop"]
    for get in (record for record in records if record.kind == "page_get"):
        if get.outcome == OK:
            yield from _check_value(puts, get)
        elif (
            get.outcome in (MISS, UNSURE)
            and not get.is_expired
            and history.is_calm(get.start_ns, get.end_ns)
        ):
            yield from _check_miss(history, puts.values(), drops, get)


def _check_value(puts: dict[int, Record], get: Record) -> Iterator[Violation]:
    """Any whole value that was ever put under the key is right, and nothing else."""
    numbers = {run.number for run in get.runs}
    put = puts.get(get.runs[0].number) if get.runs else None
    if len(numbers) > 1:
        yield Violation("a mixed page", f"of {len(numbers)} values", (get,))
    elif put is None:
        yield Violation("a foreign page", "no such value was put under this key", (get,))
    elif put.start_ns > get.end_ns:
        yield Violation("a page from the future", "", (get, put))
    elif len(get.runs) != 1 or get.runs[0].origin != 0 or get.value != put.length:
        yield Violation("a torn page", f"{get.value} bytes in {len(get.runs)} runs", (get, put))


def _check_miss(
    history: History, puts: Iterable[Record], drops: list[Record], get: Record
) -> Iterator[Violation]:
    for put in puts:
        is_dropped = any(
            drop.end_ns >= put.start_ns and drop.start_ns <= get.end_ns for drop in drops
        )
        is_before = put.end_ns < get.start_ns
        if is_before and not is_dropped and history.is_safe(put, get.end_ns):
            yield Violation("a lost page", "acknowledged, and nothing was wrong", (get, put))
            return


def by_key(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Records of pages by key."""
    keys: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.kind.startswith("page_"):
            keys[record.name].append(record)
    return keys
