"""A working set of three times the memory, on a real node: LRU hits as often as a simulation."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence

import pytest

from gd2fs.testing import LocalNodes

MIB = 1 << 20
MEMORY_BYTES = 32 * MIB
PAGE_BYTES = 128 * 1024
EVICTED_TO = 0.95  # of the memory: the background eviction keeps it between this and all of it


def simulated_hits(wanted: Sequence[int], capacity: int) -> int:
    order: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for key in wanted:
        hits += key in order
        order[key] = None
        order.move_to_end(key)
        if len(order) > capacity:
            order.popitem(last=False)
    return hits


@pytest.mark.slow
def test_lru_hits_between_simulations_of_the_least_and_the_most_that_memory_holds():
    keys = 3 * MEMORY_BYTES // PAGE_BYTES
    chance = random.Random(3)
    wanted = [int(keys * chance.random() ** 2) for _ in range(6 * keys)]
    page, into = bytes(PAGE_BYTES), bytearray(PAGE_BYTES)

    hits = 0
    with LocalNodes(1, memory_bytes=MEMORY_BYTES) as nodes, nodes.client(timeout_s=20) as client:
        pages = client.pages("ns")
        for key in wanted:
            hit = pages.get([str(key)], [into]).leading
            hits += hit
            if not hit:
                assert pages.put([str(key)], [page]) == [True]
        counts = nodes.servers[0].counts()

    most = (MEMORY_BYTES - counts["record_bytes"]) // PAGE_BYTES
    least = int(EVICTED_TO * MEMORY_BYTES - counts["record_bytes"]) // PAGE_BYTES - 1
    assert simulated_hits(wanted, least) <= hits <= simulated_hits(wanted, most)
    assert counts["evicted_pieces"] > 0
