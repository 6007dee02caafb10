"""Control groups: what a container, a unit or a job may have, as versions 1 and 2 of them tell.

A limit holds for a group and all groups in it together: the least on the way from the own one up to
the root is what counts.
"""

from __future__ import annotations

from pathlib import Path

TEXT_BYTES_MAX = 1 << 20  # of one file; those of /proc and /sys are far smaller
V1_UNLIMITED = 1 << 60  # version 1 writes huge numbers where there is no limit
MEMORY = {  # by controller, "" for version 2: limit, use, and what of it are pages of files, which
    # go as soon as somebody needs memory
    "": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "memory": (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_inactive_file", "total_active_file"),
    ),
}


class ControlGroups:
    """Those of this process. What is not there, or may not be read, is no limit.

    Args:
        root: Below it lie /proc and /sys.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        mounts = [line.split() for line in self._lines("/proc/self/mounts")]
        self._mounts = [each[1:4] for each in mounts if len(each) >= 4]
        lines = [line.split(":", 2) for line in self._lines("/proc/self/cgroup")]
        self._paths = [each for each in lines if len(each) == 3]

    def least(self, controller: str, unified: str, legacy: str) -> int | None:
        """The smallest limit on the way to the root; None: there is none.

        Args:
            controller: As version 1 names it.
            unified, legacy: Names of the files that tell it, of versions 2 and 1.
        """
        limits = [
            self._limit(f"{folder}/{name}")
            for name, folders in ((unified, self._folders("")), (legacy, self._folders(controller)))
            for folder in folders
        ]
        return min((each for each in limits if each is not None), default=None)

    def memory_left(self) -> int | None:
        """Bytes that this process may still have, unless others take them; None: no limit."""
        found = [
            self._left(folder, *names)
            for controller, names in MEMORY.items()
            for folder in self._folders(controller)
        ]
        return min((each for each in found if each is not None), default=None)

    def processors(self) -> float | None:
        """How many whole processors may be used; None: no limit."""
        shares = []
        for folder in self._folders(""):
            quota, _, period = self._text(f"{folder}/cpu.max").partition(" ")
            if quota.isdigit() and period.isdigit():
                shares.append(int(quota) / int(period))
        for folder in self._folders("cpu"):
            number = self._limit(f"{folder}/cpu.cfs_quota_us") or 0
            per = self._limit(f"{folder}/cpu.cfs_period_us") or 0
            if number > 0 and per > 0:
                shares.append(number / per)
        return min(shares, default=None)

    def _left(self, folder: str, limit: str, use: str, cached: tuple[str, ...]) -> int | None:
        most, used = self._limit(f"{folder}/{limit}"), self._limit(f"{folder}/{use}")
        if most is None or used is None:
            return None
        fields = dict(line.partition(" ")[::2] for line in self._lines(f"{folder}/memory.stat"))
        cache = sum(int(fields.get(name, 0)) for name in cached)
        return max(most - used + min(cache, used), 0)

    def _folders(self, controller: str) -> list[str]:
        """Of version 2 without a controller, else of version 1: from its own up to the root."""
        wanted = "cgroup" if controller else "cgroup2"
        points = [
            point
            for point, kind, options in self._mounts
            if kind == wanted and (not controller or controller in options.split(","))
        ]
        paths = [
            path
            for _, names, path in self._paths
            if (controller in names.split(",") if controller else not names)
        ]
        return [point + above for point in points[:1] for path in paths for above in _above(path)]

    def _limit(self, path: str) -> int | None:
        """The number in a file; None without one, and where it says that there is no limit."""
        text = self._text(path)
        return int(text) if text.isdigit() and int(text) < V1_UNLIMITED else None

    def _lines(self, path: str) -> list[str]:
        return self._text(path).splitlines()

    def _text(self, path: str) -> str:
        try:
            with (self._root / path.lstrip("/")).open("rb") as file:
                return file.read(TEXT_BYTES_MAX).decode(errors="replace").strip()
        except OSError:
            return ""


def _above(path: str) -> list[str]:
    """``/a/b`` gives ``/a/b``, ``/a`` and nothing, the root."""
    parts = [part for part in path.split("/") if part]
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]
