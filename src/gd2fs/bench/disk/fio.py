"""Fio: what direct reads of this file system reach without anything of ours."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gd2fs.errors import InvalidRequest, Unavailable

FILE = "fio.dat"
GRACE_S = 60  # beyond the time that a run is to take


@dataclass(frozen=True, slots=True)
class Way:
    """How fio keeps so many reads in flight."""

    engine: str  # io_uring or libaio: one thread. psync: a thread for each read
    depth: int

    def words(self) -> list[str]:
        """Its options."""
        if self.engine == "psync":
            return ["--ioengine=psync", "--thread", f"--numjobs={self.depth}"]
        return [f"--ioengine={self.engine}", f"--iodepth={self.depth}"]

    def __str__(self) -> str:
        return f"{self.engine}, {self.depth} in flight"


class Fio:
    """One file of fio's own in a folder, written once, read in random order by direct I/O.

    Args:
        folder: Where its file lies; ``close`` removes it.
        file_bytes: Of the file.
        block_bytes: Of one read.
        depth: Reads in flight.
        is_uring: ``read`` does it by io_uring, or by so many threads, as the tier does it.
        is_huge: Into huge pages, as the tier does it where there are any: larger requests to the
            device, and fewer of them.

    Raises:
        InvalidRequest: fio is not installed.
        Unavailable: It failed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        file_bytes: int,
        block_bytes: int,
        depth: int,
        is_uring: bool,
        is_huge: bool,
    ) -> None:
        found = shutil.which("fio")
        if found is None:
            raise InvalidRequest("fio is not installed", hint="run `apt-get install fio`")
        self._program = found
        self._file = folder / FILE
        self._file_bytes = file_bytes
        self._block_bytes = block_bytes
        self._way = Way("io_uring" if is_uring else "psync", depth)
        self._memory = ["--iomem=shmhuge", "--hugepage-size=2m"] if is_huge else []
        self._run("write", ["--iodepth=1", "--ioengine=psync"], seconds=0)

    def read(self, seconds: float, way: Way | None = None) -> float:
        """Read for so long, this way or as the tier does; the bytes that came in each second."""
        words = (way or self._way).words()
        return self._run("randread", [*words, *self._memory], seconds=seconds)

    def best_of(self, ways: Sequence[Way], seconds: float) -> Way:
        """The one that reads most; those that this machine refuses are passed over.

        Raises:
            Unavailable: All of them are refused.
        """
        rates: dict[Way, float] = {}
        fault: Unavailable | None = None
        for way in ways:
            try:
                rates[way] = self.read(seconds, way)
            except Unavailable as error:
                fault = error
        if not rates:
            raise Unavailable(f"no way of fio works here: {fault}", hint="look at the disk")
        return max(rates, key=lambda way: rates[way])

    def close(self) -> None:
        """Remove the file."""
        self._file.unlink(missing_ok=True)

    def _run(self, kind: str, ways: list[str], *, seconds: float) -> float:
        command = [
            *(self._program, "--name=gd2fs", f"--filename={self._file}", f"--rw={kind}"),
            *(f"--bs={self._block_bytes}", f"--size={self._file_bytes}", "--direct=1"),
            *("--group_reporting", "--norandommap", "--output-format=json", *ways),
        ]
        if seconds > 0:
            command += ["--time_based", f"--runtime={seconds:g}"]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                timeout=GRACE_S + seconds + self._file_bytes / 20e6,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable("fio has not ended in time", hint="look at the disk") from None
        if done.returncode != 0:
            raise Unavailable(f"fio failed: {done.stderr.strip()[:200]}", hint="look at the disk")
        side = "write" if kind == "write" else "read"
        return float(json.loads(done.stdout)["jobs"][0][side]["bw_bytes"])
