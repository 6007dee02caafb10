"""Free memory, of recorded trees of /proc and /sys: the machine's, or what a limit leaves of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gd2fs.buffers import new_buffer
from gd2fs.errors import InvalidRequest
from gd2fs.free_memory import free_memory

GIB = 1 << 30
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"
V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0"
FREE = {"proc/meminfo": f"MemTotal: {128 << 20} kB\nMemAvailable: {64 << 20} kB"}
UNIFIED = FREE | {"proc/self/mounts": V2, "proc/self/cgroup": "0::/pod/own"}
LEGACY = FREE | {"proc/self/mounts": V1, "proc/self/cgroup": "4:memory:/pod/own\n1:cpu:/\n0::/"}


def unified(folder: str, limit: int | str, used: int, cached: str = "") -> dict[str, str]:
    where = f"sys/fs/cgroup{folder}/memory"
    return {f"{where}.max": f"{limit}", f"{where}.current": f"{used}", f"{where}.stat": cached}


def legacy(folder: str, limit: int, used: int, cached: str = "") -> dict[str, str]:
    where = f"sys/fs/cgroup/memory{folder}/memory"
    names = (f"{where}.limit_in_bytes", f"{where}.usage_in_bytes", f"{where}.stat")
    return dict(zip(names, (f"{limit}", f"{used}", cached), strict=True))


CASES = {
    "nothing is told": ({}, None),
    "no groups": (FREE, 64 * GIB),
    "a meminfo of an old kernel": ({"proc/meminfo": "MemFree: 12 kB"}, None),
    "no limit": (UNIFIED | unified("/pod/own", "max", 2 * GIB), 64 * GIB),
    "its own limit": (UNIFIED | unified("/pod/own", 8 * GIB, 3 * GIB), 5 * GIB),
    "a limit above what the machine has": (UNIFIED | unified("/pod/own", 99 * GIB, 0), 64 * GIB),
    "a limit of the group above": (
        UNIFIED | unified("/pod/own", 8 * GIB, 3 * GIB) | unified("/pod", 9 * GIB, 8 * GIB),
        1 * GIB,
    ),
    "a limit of the container, whose group is the root": (
        UNIFIED | {"proc/self/cgroup": "0::/"} | unified("", 4 * GIB, GIB),
        3 * GIB,
    ),
    "more is used than may be": (UNIFIED | unified("/pod/own", 3 * GIB, 4 * GIB), 0),
    "pages of files go when memory is needed": (
        UNIFIED
        | unified(
            "/pod/own",
            8 * GIB,
            7 * GIB,
            f"anon 12\nfile {6 * GIB}\nshmem {3 * GIB}\nactive_file {GIB}\ninactive_file {2 * GIB}",
        ),
        4 * GIB,
    ),
    "a limit without what is used": (
        UNIFIED | {"sys/fs/cgroup/pod/own/memory.max": f"{GIB}"},
        64 * GIB,
    ),
    "version 1": (LEGACY | legacy("/pod/own", 8 * GIB, 3 * GIB), 5 * GIB),
    "version 1 without a limit": (LEGACY | legacy("/pod/own", (1 << 63) - 4096, GIB), 64 * GIB),
    "version 1 in a container, which sees its own group as the root": (
        LEGACY | legacy("", 4 * GIB, 3 * GIB, f"active_file 1\ntotal_active_file {GIB}"),
        2 * GIB,
    ),
    "a group of another controller": (
        LEGACY | {"proc/self/cgroup": "1:cpu:/pod/own"} | legacy("/pod/own", GIB, 0),
        64 * GIB,
    ),
    "lines that say nothing": (
        FREE | {"proc/self/mounts": "cgroup2\n\n", "proc/self/cgroup": "0\n:"},
        64 * GIB,
    ),
}


@pytest.mark.parametrize(("tree", "bytes_free"), CASES.values(), ids=CASES)
def test_free_is_what_the_machine_has_and_every_limit_leaves(tmp_path, tree, bytes_free):
    for path, text in tree.items():
        file: Path = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    assert free_memory(tmp_path) == bytes_free


def test_a_buffer_of_more_than_is_free_is_refused(monkeypatch):
    monkeypatch.setattr("gd2fs.buffers.free_memory", lambda: 100 << 20)

    with pytest.raises(InvalidRequest, match=f"more than the {100 << 20} that memory has"):
        new_buffer("/kv/a", 200 << 20)


def test_this_machine_tells():
    assert (free_memory() or 0) > 0
