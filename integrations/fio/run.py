"""Runs fio's jobs of this folder against a real node that is started for them.

    run.py check                     every byte of 1 GiB is checked
    run.py bench [--arena KIND]      the figures of the published table

Needs `make fio`. Run from the repository's root.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gd2fs.testing.cluster import Cluster

JOBS = Path(__file__).parent / "jobs"
ENGINE = Path("build", "fio", "gd2fs.so")
RUN_S = 900
MIB = 1 << 20
SPARE_MIB = 256  # of a node's memory, over what a file and its overwrite take
FILES = {"64mib": 64 * MIB, "1gib": 1024 * MIB}  # job file: bytes of its file


def run_jobs(job_file: Path, cluster: Cluster) -> list[dict]:
    """The jobs of one file, as fio reports them. Raises CalledProcessError when one failed."""
    environment = os.environ | {"GD2FS_CPADDR": cluster.cp, "GD2FS_CLUSTER": cluster.name}
    ended = subprocess.run(
        ["fio", "--output-format=json", job_file],
        stdout=subprocess.PIPE, env=environment, check=True, timeout=RUN_S,
    )  # fmt: skip
    return json.loads(ended.stdout)["jobs"]


def figures(jobs: list[dict], file_bytes: int) -> Iterator[str]:
    """A row for each job: its rate, the file in milliseconds, and the request's latencies."""
    for job in jobs:
        kind = job["job options"]["rw"]
        side = job[kind]
        rate = side["bw_bytes"]
        latency = side["lat_ns"]["percentile"]  # from the call to its completion
        yield (
            f"| {job['jobname']} | {rate / 1e9:.2f} | {file_bytes / rate * 1e3:.1f} "
            f"| {latency['50.000000'] / 1e6:.1f} | {latency['99.000000'] / 1e6:.1f} "
            f"| {side['total_ios']} |"
        )


def check(arena: str, folder: str) -> None:
    memory = f"{FILES['1gib'] // MIB + 2 * SPARE_MIB}MiB"
    with Cluster(nodes=1, memory=memory, directory=folder, arena=arena) as cluster:
        for job in run_jobs(JOBS / "verify.fio", cluster):
            moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
            print(f"{job['jobname']}: error {job['error']}, {moved // MIB} MiB moved and checked")


def bench(arena: str, folder: str) -> None:
    for name, file_bytes in FILES.items():
        memory = f"{2 * file_bytes // MIB + SPARE_MIB}MiB"  # the file, and all of it once more
        with Cluster(nodes=1, memory=memory, directory=folder, arena=arena) as cluster:
            print(cluster.members[0].ready_line)
            print(f"\n| {name} | GB/s | ms per file | ms per request, P50 | P99 | requests |")
            print("|---|---|---|---|---|---|")
            for row in figures(run_jobs(JOBS / f"{name}.fio", cluster), file_bytes):
                print(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["check", "bench"])
    parser.add_argument("--arena", default="auto", help="what the node's memory is made of")
    asked = parser.parse_args()
    if not ENGINE.exists():
        sys.exit(f"error: there is no `{ENGINE}`\nhint: run `make fio`")
    with tempfile.TemporaryDirectory() as folder:
        try:
            {"check": check, "bench": bench}[asked.what](asked.arena, folder)
        except RuntimeError as error:
            sys.exit(f"error: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"error: fio ended with status {error.returncode}: {error.stdout[-2000:]!r}")


if __name__ == "__main__":
    main()
