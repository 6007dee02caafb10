"""Container: limits of control groups, version 1 and 2, and of processors."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.control_groups import ControlGroups
from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, ok, warning
from gd2fs.doctor.machine import UNLIMITED
from gd2fs.doctor.memory import is_swappable
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes

MIB = 1 << 20
OWN_BYTES = 512 * MIB  # of a node beside its arena: index, buffers, Python
PROCESSES_MIN = 256  # threads of a node and of its clients in one container
DOCKER = "docker: `{docker}`; Kubernetes: `{kubernetes}`"


@check("memory limit", "a container that is over its limit is killed, with the cache in it")
def memory_limit(subject: Subject) -> Iterator[Finding]:
    """Room for the arena, where it counts, and for the node itself."""
    limit = ControlGroups(subject.machine.root).least(
        "memory", "memory.max", "memory.limit_in_bytes"
    )
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
    groups = ControlGroups(subject.machine.root)
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
    share = ControlGroups(subject.machine.root).processors()
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
    group = ControlGroups(subject.machine.root).least("pids", "pids.max", "pids.max")
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
