"""Entries: what a node has noted, as core/key_trace.h lays it out, read as batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

ENTRY = struct.Struct("<QIBBH")  # number, size, outcome, op, nothing
EXISTS, GET, READ, OFFER = 1, 2, 3, 5  # ops, as the wire numbers them
MISS, HIT, STORED = 0, 1, 2  # outcomes


@dataclass(frozen=True, slots=True)
class Key:
    """One of a batch. ``number``: of its name, of 63 bits; ``size``: bytes, 0: not known."""

    number: int
    size: int
    outcome: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What one request asked one node for, in its order; ``when_us`` on the node's steady clock."""

    when_us: int
    op: int
    keys: tuple[Key, ...]


def batches_in(entries: bytes) -> Iterator[Batch]:
    """Of whole batches: heads, each before as many keys as it says."""
    all_of = ENTRY.iter_unpack(entries)
    for when_us, count, _, op, _ in all_of:
        keys = (next(all_of) for _ in range(count))
        # The simulator's numbers are signed: one bit less does as well.
        yield Batch(when_us, op, tuple(Key(each[0] >> 1, each[1], each[2]) for each in keys))
