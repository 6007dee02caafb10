"""Machine: what a result was measured on, because a number without it means little."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """Processor, cores, memory, system, load and time, as JSON can hold them."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": usable_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average_at_start": round(os.getloadavg()[0], 2),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = [line.partition(":")[2].strip() for line in lines if line.startswith(name)]
    return values[0] if values else ""
