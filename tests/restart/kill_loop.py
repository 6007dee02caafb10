"""The loop: writers write, their node is killed and started again, and all it has is compared."""

from __future__ import annotations

import random
import time

from restart.writer import Writer

from gd2fs import Client
from gd2fs.testing.cluster import Cluster

WRITERS = 3
WRITES_MAX = 400  # of all writers between two kills
PATIENCE_S = 60.0


def run(cluster: Cluster, rounds: int, seed: int) -> list[str]:
    """Kill the node of ``cluster`` so many times; what was wrong afterwards, one line each."""
    chance = random.Random(seed)
    writers = [Writer(number, cluster.cp, cluster.name) for number in range(WRITERS)]
    for number in range(rounds):
        for writer in writers:
            writer.start()
        _wait_for(writers, sum(each.count for each in writers) + chance.randrange(WRITES_MAX))
        cluster.members[0].kill()
        for writer in writers:
            writer.join()
        cluster.members[0].start()
        with Client(cluster.cp, cluster=cluster.name) as client:
            faults = [fault for writer in writers for fault in writer.check(client)]
        if faults:
            return [f"after kill {number + 1}: {fault}" for fault in faults]
    return []


def _wait_for(writers: list[Writer], count: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while sum(each.count for each in writers) < count:
        assert time.monotonic() < deadline_s, "the writers do not write"
        time.sleep(0.001)
