"""Free memory: what the machine has for whoever asks, or a container's limit leaves of it."""

from __future__ import annotations

from pathlib import Path

from gd2fs.control_groups import ControlGroups


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that this process can still have; None: nothing tells.

    Args:
        root: Below it lie /proc and /sys.
    """
    told = (_available(root), ControlGroups(root).memory_left())
    return min((each for each in told if each is not None), default=None)


def _available(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else None
