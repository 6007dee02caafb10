"""Kill a node again and again: `python -m restart [ROUNDS] [SEED]`, 50 times without."""

from __future__ import annotations

import sys
import tempfile

from restart import kill_loop

from gd2fs.testing.cluster import Cluster

ROUNDS = 50


def main(rounds: int = ROUNDS, seed: int = 0) -> int:
    """Say what was wrong; the exit status."""
    with (
        tempfile.TemporaryDirectory(prefix="gd2fs-test-", dir="/dev/shm") as memory,
        tempfile.TemporaryDirectory() as logs,
        Cluster(1, "64MiB", logs, arena=f"file:{memory}/{{name}}") as cluster,
    ):
        faults = kill_loop.run(cluster, rounds, seed)
    print("\n".join(faults) or f"killed {rounds} times: nothing wrong, nothing lost, nothing back")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
