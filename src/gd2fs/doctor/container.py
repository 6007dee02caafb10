"""Container: limits of control groups, version 1 and 2, and of processors."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, ok, warning
from gd2fs.doctor.machine import UNLIMITED, Machine
from gd2fs.doctor.memory import is_swappable
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes

MIB = 1 << 20
OWN_BYTES = 512 * MIB  # of a node beside its arena: index, buffers, Python
PROCESSES_MIN = 256  # threads of a node and of its clients in one container
V1_UNLIMITED = 1 << 60  # version 1 writes huge numbers where there is no limit
DOCKER = "docker: `{docker}`; Kubernetes: `{kubernetes}`"


class Groups:
    """The control groups of this process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._paths = [line.split(":", 2) for line in _lines(machine, "/proc/self/cgroup")]

    def least(self, controller: str, unified: str, legacy: str) -> int | None:
        """The smallest limit on the way to the root; None: there is none."""
        values = [
            self._machine.number(f"{folder}/{name}")
            for name, folders in ((unified, self._folders("")), (legacy, self._folders(controller)))
            for folder in folders
        ]
        limits = [value for value in values if value is not None and 0 <= value < V1_UNLIMITED]
        return min(limits, default=None)

    def processors(self) -> float | None:
        """How many whole processors may be used; None: no limit."""
        shares = []
        for folder in self._folders(""):
            quota, _, period = self._machine.text(f"{folder}/cpu.max").partition(" ")
            if quota.isdigit() and period.isdigit():
                shares.append(int(quota) / int(period))
        for folder in self._folders("cpu"):
            number = self._machine.number(f"{folder}/cpu.cfs_quota_us") or 0
            per = self._machine.number(f"{folder}/cpu.cfs_period_us") or 0
            if number > 0 and per > 0:
                shares.append(number / per)
        return min(shares, default=None)

    def _folders(self, controller: str) -> list[str]:
        """Of version 2 without a controller, else of version 1: from its own up to the root."""
        kind = "cgroup" if controller else "cgroup2"
        points = [
            each.point
            for each in self._machine.mounts()
            if each.kind == kind and (not controller or controller in each.options.split(","))
        ]
        paths = [
            path
            for _, names, path in self._paths
            if (controller in names.split(",") if controller else not names)
        ]
        return [point + above for point in points[:1] for path in paths for above in _above(path)]


def _above(path: str) -> list[str]:
    """``/a/b`` gives ``/a/b``, ``/a`` and nothing, the root."""
    parts = [part for part in path.split("/") if part]
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts), -1, -1)]


def _lines(machine: Machine, path: str) -> list[str]:
    return [line for line in machine.text(path).splitlines() if line.count(":") >= 2]


@check("memory limit", "a container that is over its limit is killed, with the cache in it")
def memory_limit(subject: Subject) -> Iterator[Finding]:
    """Room for the arena, where it counts, and for the node itself."""
    limit = Groups(subject.machine).least("memory", "memory.max", "memory.limit_in_bytes")
    if limit is None:
        yield ok("no limit")
        return
    arena = subject.wanted.memory_bytes if is_swappable(subject) else 0
    needed = arena + OWN_BYTES
    found = f"limit {format_bytes(limit)}"
    if limit >= needed or not subject.wanted.is_known:
        yield ok(found)
        return
    size = f"{-(-needed // MIB)}"
    fix = DOCKER.format(docker=f"--memory {size}m", kubernetes=f"limits: memory: {size}Mi")
    text = f"{found}; the arena and the node need {format_bytes(needed)}"
    yield (error if limit < max(arena, OWN_BYTES // 2) else warning)(text, fix)


@check("hugepages limit", "huge pages beyond the limit end the node with SIGBUS, or its start")
def hugepages_limit(subject: Subject) -> Iterator[Finding]:
    """As many bytes as the arena."""
    groups = Groups(subject.machine)
    limits = [
        groups.least("hugetlb", f"hugetlb.2MB.{kind}max", f"hugetlb.2MB.{kind}limit_in_bytes")
        for kind in ("", "rsvd.")
    ]
    limit = min((each for each in limits if each is not None), default=None)
    if limit is None:
        yield ok("no limit")
        return
    found = f"limit {format_bytes(limit)} of huge pages"
    wanted = subject.wanted
    if not wanted.has_hugetlb or limit >= wanted.memory_bytes:
        yield ok(found)
        return
    size = f"{-(-wanted.memory_bytes // MIB)}"
    fix = f"Kubernetes: `limits: hugepages-2Mi: {size}Mi`; else `echo {wanted.memory_bytes}` there"
    is_needed = wanted.arena == "hugetlb" or wanted.arena_file
    text = f"{found}, the arena needs {format_bytes(wanted.memory_bytes)}"
    yield (error if is_needed else warning)(text, fix)


@check("processor limit", "a node that is throttled answers late, by up to 100 ms each time")
def processor_limit(subject: Subject) -> Iterator[Finding]:
    """At least one for each thread."""
    share = Groups(subject.machine).processors()
    threads = subject.wanted.threads
    if share is None:
        yield ok("no limit")
    elif share >= threads or not subject.wanted.is_known:
        yield ok(f"{share:g} processors")
    else:
        fix = DOCKER.format(
            docker=f"--cpus {threads + 1}", kubernetes=f"limits: cpu: {threads + 1}"
        )
        found = f"{share:g} processors for {threads} threads that move bytes"
        yield warning(found, f"{fix}; or `threads = {max(int(share), 1)}`")


@check("processors", "threads that move bytes and share a processor take turns")
def processors(subject: Subject) -> Iterator[Finding]:
    """At least one for each thread."""
    count, threads = subject.machine.processor_count(), subject.wanted.threads
    if count < threads and subject.wanted.is_known:
        yield warning(
            f"{count} processors for {threads} threads that move bytes",
            f"`threads = {count}`, or let it run on more (`taskset`, `--cpuset-cpus`)",
        )
    else:
        yield ok(f"{count} processors")


@check("process limit", "a thread that cannot be started ends the node or its client")
def process_limit(subject: Subject) -> Iterator[Finding]:
    """Of the container, and of the user."""
    group = Groups(subject.machine).least("pids", "pids.max", "pids.max")
    user = subject.machine.limit("Max processes")
    known = [each for each in (group, user) if each is not None and each < UNLIMITED]
    if not known or min(known) >= PROCESSES_MIN:
        yield ok(f"limit {min(known) if known else 'none'}")
        return
    kind = "the container" if group == min(known) else "the user"
    yield warning(
        f"limit {min(known)} of {kind}, with all threads counted",
        f"`--pids-limit {4 * PROCESSES_MIN}` for a container, `TasksMax=` in a unit, `ulimit -u`",
    )
