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
from pathlib import Path

from gd2fs.errors import GD2FSError
from gd2fs.testing.cluster import Cluster

JOBS = Path(__file__).parent / "jobs"
ENGINE = Path("build", "fio", "gd2fs.so")
RUN_S = 900
MIB, GIB = 1 << 20, 1 << 30
SPARE_MIB = 256  # of a node's memory, over what a file and its overwrite take
SECTIONS = ("write-depth1", "write-depth8", "read-depth1", "read-depth8")
COLUMNS = (
    "GB/s", "ms per file", "ms per request: least", "P50", "P99", "CPU ms/GiB", "requests"
)  # fmt: skip
FILES = {"64mib": 64 * MIB, "1gib": 1024 * MIB}  # job file: bytes of its file


def run_jobs(job_file: Path, cluster: Cluster, *options: str) -> list[dict]:
    """The jobs of one file, as fio reports them. Raises CalledProcessError when one failed."""
    environment = os.environ | {"GD2FS_CPADDR": cluster.cp, "GD2FS_CLUSTER": cluster.name}
    ended = subprocess.run(
        ["fio", "--output-format=json", *options, job_file],
        stdout=subprocess.PIPE, env=environment, check=True, timeout=RUN_S,
    )  # fmt: skip
    return json.loads(ended.stdout)["jobs"]


def processor_s(cluster: Cluster) -> float:
    """Processor time so far, of the node and of all fio that have ended."""
    process = cluster.members[0].process
    assert process
    fields = Path("/proc", str(process.pid), "stat").read_text().rpartition(")")[2].split()
    node_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    times = os.times()
    return node_s + times.children_user + times.children_system


def figures(job: dict, file_bytes: int, spent_s: float) -> str:
    """A row: the rate, the file in milliseconds, a request's latencies, and what it cost."""
    side = job[job["job options"]["rw"]]
    rate = side["bw_bytes"]
    latency = side["lat_ns"]  # from the call to its completion
    middle, late = (latency["percentile"][f"{rank}.000000"] for rank in (50, 99))
    return (
        f"| {job['jobname']} | {rate / 1e9:.2f} | {file_bytes / rate * 1e3:.1f} "
        f"| {latency['min'] / 1e6:.1f} | {middle / 1e6:.1f} | {late / 1e6:.1f} "
        f"| {spent_s * 1e3 * GIB / side['io_bytes']:.0f} | {side['total_ios']} |"
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
            print(f"\n| {name} | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
            for section in SECTIONS:
                before_s = processor_s(cluster)
                (job,) = run_jobs(JOBS / f"{name}.fio", cluster, f"--section={section}")
                print(figures(job, file_bytes, processor_s(cluster) - before_s), flush=True)


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
        except GD2FSError as error:
            sys.exit(f"error: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"error: fio ended with status {error.returncode}: {error.stdout[-2000:]!r}")


if __name__ == "__main__":
    main()
