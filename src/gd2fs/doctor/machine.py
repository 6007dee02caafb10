"""Machine: everything that checks read of the system, below one root that can be another folder.

Files of /proc, /sys and /etc, and paths that the configuration names, are looked for below it. What
no file tells is asked of the probes (``probes.py``), which can be replaced as well.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gd2fs.doctor.probes import Probes

TEXT_BYTES_MAX = 1 << 20  # of one file; those of /proc and /sys are far smaller
PROCESSES_MAX = 100_000
FILES_MAX = 100_000  # of one folder and all below it
UNLIMITED = 1 << 62  # what `unlimited` and `max` count as


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system. ``point``: its folder."""

    point: str
    kind: str
    options: str
    source: str


@dataclass(frozen=True, slots=True)
class Process:
    """One that runs; of another user's the environment is not known, and empty."""

    pid: int
    words: tuple[str, ...]
    environment: Mapping[str, str]


class Machine:
    """Read only. What is not there, or may not be read, is empty or None, never an exception.

    Args:
        root: Below it lie /proc, /sys, /etc and all else.
        environment: Of whom the advice is for.
        probes: What no file tells.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        root: str | Path = "/",
        *,
        environment: Mapping[str, str] = os.environ,
        probes: Probes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = Path(root)
        self.environment = environment
        self.probes = probes or Probes()
        self.clock = clock

    def path(self, path: str) -> Path:
        """Where ``path``, absolute or relative to the current folder, lies below the root."""
        return self.root / os.path.abspath(path).lstrip("/")

    def text(self, path: str) -> str:
        """What stands in a file, without white space around it; empty without one."""
        try:
            with self.path(path).open("rb") as file:
                return file.read(TEXT_BYTES_MAX).decode(errors="replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """The number in a file, ``max`` being a huge one; None without one."""
        return as_number(self.text(path))

    def names(self, path: str) -> list[str]:
        """What is in a folder, in order; nothing without one."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def files(self, folder: str, end: str) -> list[str]:
        """Files below a folder whose names end so, in no order; ``FILES_MAX`` at most."""
        found = (
            self.seen(Path(parent) / name)
            for parent, _, names in os.walk(self.path(folder))
            for name in names
            if name.endswith(end)
        )
        return list(islice(found, FILES_MAX))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self.path(path).exists()

    def status(self, path: str) -> os.stat_result | None:
        """Mode, owner and device of a file; None without one."""
        try:
            return self.path(path).stat()
        except OSError:
            return None

    def real(self, path: str) -> str:
        """``path`` with links followed, as seen from the root."""
        real = os.path.realpath(self.path(path))
        root = os.path.realpath(self.root)
        return "/" + os.path.relpath(real, root) if real.startswith(root) else real

    def seen(self, path: Path) -> str:
        """A path of the real machine, as it is below the root."""
        return "/" + os.path.relpath(path, self.root)

    def sysctl(self, name: str) -> str:
        """``net.core.rmem_max`` as text; empty where this kernel has none."""
        return self.text("/proc/sys/" + name.replace(".", "/"))

    def sysctl_number(self, name: str) -> int | None:
        """The same as a number."""
        return as_number(self.sysctl(name))

    def kernel_version(self) -> tuple[int, int] | None:
        """Major and minor; None where it is not told."""
        found = re.match(r"(\d+)\.(\d+)", self.sysctl("kernel.osrelease"))
        return (int(found[1]), int(found[2])) if found else None

    def memory(self, path: str = "/proc/meminfo") -> dict[str, int]:
        """Fields of meminfo, of the machine or of a NUMA node: bytes, or counts of pages."""
        fields = {}
        for line in self.text(path).splitlines():
            name, _, rest = line.partition(":")
            words = rest.split()
            if words and words[0].isdigit():
                scale = 1024 if words[-1] == "kB" else 1
                fields[name.split()[-1]] = int(words[0]) * scale
        return fields

    def limit(self, name: str) -> int | None:
        """The soft limit of this process by its name in /proc/self/limits."""
        for line in self.text("/proc/self/limits").splitlines():
            if line.startswith(name):
                return as_number(line[len(name) :].split()[0])
        return None

    def mounts(self) -> list[Mount]:
        """All of them, the last one over the others."""
        mounts = []
        for line in self.text("/proc/self/mounts").splitlines():
            source, point, kind, options = line.split()[:4]
            mounts.append(Mount(point.replace("\\040", " "), kind, options, source))
        return mounts

    def mount_of(self, path: str) -> Mount:
        """The file system that a path is, or would be, on."""
        real = self.real(path)
        above = [each for each in self.mounts() if _is_below(real, each.point)]
        longest = max((len(each.point) for each in above), default=0)
        found = [each for each in above if len(each.point) == longest]
        return found[-1] if found else Mount("/", "", "", "")

    def processes(self) -> Iterator[Process]:
        """All that can be seen."""
        for name in self.names("/proc")[:PROCESSES_MAX]:
            words = self._zeros(f"/proc/{name}/cmdline") if name.isdigit() else []
            if words:
                pairs = (each.split("=", 1) for each in self._zeros(f"/proc/{name}/environ"))
                variables = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
                yield Process(int(name), tuple(words), variables)

    def nodes_here(self) -> list[int]:
        """Process numbers of `gd2fs serve` on this machine."""
        return [each.pid for each in self.processes() if _is_node(each.words)]

    def is_container(self) -> bool:
        """Whether files of /etc are of an image, and not of the machine."""
        files = ("/.dockerenv", "/run/.containerenv")
        return any(map(self.exists, files)) or "KUBERNETES_SERVICE_HOST" in self.environment

    def is_readable(self, path: str) -> bool:
        """Whether this user may read a file."""
        return os.access(self.path(path), os.R_OK)

    def processor_count(self) -> int:
        """How many this process may run on."""
        for line in self.text("/proc/self/status").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return len(as_set(line.partition(":")[2]))
        return 1

    def _zeros(self, path: str) -> list[str]:
        return [each for each in self.text(path).split("\0") if each]


def as_number(text: str) -> int | None:
    """A number as /proc and /sys write it; ``max`` and ``unlimited`` are a huge one."""
    if text in ("max", "unlimited"):
        return UNLIMITED
    try:
        return int(text)
    except ValueError:
        return None


def as_set(text: str) -> set[int]:
    """``0-3,8`` as numbers."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def _is_below(path: str, folder: str) -> bool:
    return folder == "/" or path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_node(words: tuple[str, ...]) -> bool:
    return "serve" in words and any("gd2fs" in word for word in words[: words.index("serve")])
