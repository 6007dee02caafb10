"""What a node's curves cost its readers: the same reads with them and without, in turn.

    .venv/bin/python benchmarks/curves_on_and_off.py [ROUNDS] [TRANSPORT]

Gets of 64 pages of 4 KiB, probes of as many, and reads of 64 MiB, from a node in this very process:
CPU time of both sides, which other work on the machine changes least. "again" is without them once
more: how far that lies from "without" is what cannot be told apart.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

from gd2fs.testing import LocalNodes

PAGES, BATCH, BATCHES, PAGE_BYTES = 100_000, 64, 300, 4096
FILE_BYTES = 64 << 20
READS = 3
KINDS = ("without", "with", "again")
LOWEST = 10  # one in so many of the rounds, those that were disturbed least


def main(rounds: int = 100, transport: str = "tcp") -> None:
    """Measure and print."""
    rng = random.Random(1)
    with (
        LocalNodes(1, memory_bytes=1536 << 20, arena="auto") as nodes,
        nodes.client(transport=transport, timeout_s=20) as client,
    ):
        server = nodes.servers[0]
        assert server is not None
        pages = client.pages("bench")
        keys = [b"%032d" % at for at in range(PAGES)]
        for at in range(0, PAGES, 1000):
            pages.put(keys[at : at + 1000], [bytes(PAGE_BYTES)] * 1000)
        client.put("/bench/file", bytes(FILE_BYTES))
        into = [bytearray(PAGE_BYTES) for _ in range(BATCH)]
        batches = [rng.sample(keys, BATCH) for _ in range(BATCHES)]
        cases: dict[str, tuple[int, Callable[[], object]]] = {
            "get of 4 KiB": (BATCHES * BATCH, lambda: [pages.get(each, into) for each in batches]),
            "probe": (BATCHES * BATCH, lambda: [pages.exists(each) for each in batches]),
            "read of 64 MiB": (READS, lambda: [client.get("/bench/file") for _ in range(READS)]),
        }
        for name, (count, run) in cases.items():
            few = max(10, rounds // (5 if count == READS else 1))
            print(_line(name, _measured(server.set_curves, run, few, count, rng)), flush=True)


def _measured(
    set_curves: Callable[[bool], None],
    run: Callable[[], object],
    rounds: int,
    count: int,
    rng: random.Random,
) -> dict[str, list[float]]:
    """Microseconds of CPU time for each, sorted."""
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    set_curves(True)
    for _ in range(5):  # until no more is followed than may be
        run()
    for _ in range(rounds):
        for kind in rng.sample(KINDS, len(KINDS)):
            set_curves(kind == "with")
            start_s = time.process_time()
            run()
            took[kind].append((time.process_time() - start_s) / count * 1e6)
    return {kind: sorted(each) for kind, each in took.items()}


def _line(name: str, took: dict[str, list[float]]) -> str:
    medians = {kind: statistics.median(each) for kind, each in took.items()}
    least = {kind: statistics.mean(each[: -(-len(each) // LOWEST)]) for kind, each in took.items()}
    parts = [f"{kind} {medians[kind]:.2f} ({least[kind]:.2f})" for kind in KINDS]
    return f"{name:15} us of CPU, median (lowest tenth): {', '.join(parts)}"


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:2]), *sys.argv[2:3])
