"""Memory: huge pages, and what else decides whether an arena can be had and stays in memory."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.machine import UNLIMITED, Machine
from gd2fs.doctor.subject import Subject, Wanted
from gd2fs.free_memory import free_memory
from gd2fs.sizes import format_bytes

MIB = 1 << 20
GIB = 1 << 30
HUGE_BYTES = 2 * MIB  # of the pages that an arena is made of
POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"
LARGE_POOL = "/sys/kernel/mm/hugepages/hugepages-1048576kB"
SHM_BYTES_ENGINE = GIB  # what engines' own processes share at least
MEMLOCK_BYTES = 64 * MIB
UNEVEN = 4  # times as many pages on one NUMA node as on another

HUGE_WHY = (
    "an arena of huge pages is read by reference, without a copy; small ones cost half the rate"
)


def pages_of(size: int) -> int:
    """How many huge pages hold so many bytes."""
    return -(-size // HUGE_BYTES)


def free_pages(machine: Machine) -> int:
    """Huge pages that nobody has, or has set aside."""
    free = machine.number(f"{POOL}/free_hugepages") or 0
    return max(free - (machine.number(f"{POOL}/resv_hugepages") or 0), 0)


def is_swappable(subject: Subject) -> bool:
    """Whether the arena may be written to swap: hugetlb pages never are."""
    wanted, machine = subject.wanted, subject.machine
    if wanted.arena == "hugetlb" or "huge" in wanted.arena_file:
        return False
    total = machine.number(f"{POOL}/nr_hugepages") or 0
    return wanted.arena != "auto" or total < pages_of(wanted.memory_bytes or HUGE_BYTES)


@check("hugepages", HUGE_WHY)
def hugepages(subject: Subject) -> Iterator[Finding]:
    """Enough of 2 MiB for the arena."""
    machine, wanted = subject.machine, subject.wanted
    if not wanted.has_hugetlb:
        return
    total = machine.number(f"{POOL}/nr_hugepages") or 0
    free, needed = free_pages(machine), pages_of(wanted.memory_bytes)
    found = f"{free} of {total} huge pages of 2 MiB are free"
    if needed:
        found += f", {needed} are wanted for {format_bytes(wanted.memory_bytes)}"
    if free >= max(needed, 1):
        yield ok(found)
    elif total >= needed and (running := machine.nodes_here()):
        yield ok(f"{found}; node of process {running[0]} runs here and has its own")
    elif wanted.arena == "hugetlb":
        yield error(found, _reserve(total - free + needed))
    elif needed:
        yield warning(found, _reserve(total - free + needed))
    else:
        yield note(found, _reserve(512) + " for each GiB of a node that shall run here")


def _reserve(count: int) -> str:
    return f"`sysctl -w vm.nr_hugepages={count}`, before memory is fragmented"


@check("hugepages after a reboot", "pages that are reserved by hand are gone after the next start")
def lasting_hugepages(subject: Subject) -> Iterator[Finding]:
    """The reservation is written down."""
    machine = subject.machine
    total = machine.number(f"{POOL}/nr_hugepages") or 0
    if not total or not subject.wanted.has_hugetlb or machine.is_container():
        return  # a container does not see the files of its host
    files = ["/etc/sysctl.conf"]
    for folder in ("/etc/sysctl.d", "/run/sysctl.d", "/usr/lib/sysctl.d"):
        files += [f"{folder}/{name}" for name in machine.names(folder)]
    named = [path for path in files if "vm.nr_hugepages" in machine.text(path)]
    if "hugepages=" in machine.text("/proc/cmdline"):
        yield ok("reserved on the kernel's command line")
    elif named:
        yield ok(f"reserved in {named[-1]}")
    else:
        line = f"vm.nr_hugepages={total}"
        yield note(
            f"{total} huge pages, written down nowhere",
            f"`echo {line} > /etc/sysctl.d/80-gd2fs.conf`",
        )


@check(
    "1 GiB pages", "an arena is made of pages of 2 MiB: memory in larger ones is of no use to it"
)
def large_pages(subject: Subject) -> Iterator[Finding]:
    """None reserved, unless there are enough small ones too."""
    machine, wanted = subject.machine, subject.wanted
    large = machine.number(f"{LARGE_POOL}/nr_hugepages") or 0
    total = machine.number(f"{POOL}/nr_hugepages") or 0
    if large and total < max(pages_of(wanted.memory_bytes), 1) and wanted.has_hugetlb:
        yield warning(
            f"{large} pages of 1 GiB are reserved, and {total} of 2 MiB",
            f"`sysctl -w vm.nr_hugepages={max(pages_of(wanted.memory_bytes), large * 512)}` after "
            f"`echo 0 > {LARGE_POOL}/nr_hugepages`; or boot with `hugepagesz=2M hugepages=N`",
        )
    else:
        yield ok(f"{large} pages of 1 GiB are reserved")


@check("hugepages on NUMA nodes", "a processor reads far memory at half the rate or less")
def spread_hugepages(subject: Subject) -> Iterator[Finding]:
    """About as many on each node."""
    folder = "/sys/devices/system/node"
    counts = {
        name: subject.machine.number(f"{folder}/{name}/hugepages/hugepages-2048kB/nr_hugepages")
        for name in subject.machine.names(folder)
        if name.startswith("node") and name[4:].isdigit()
    }
    known = {name: count for name, count in counts.items() if count is not None}
    if len(known) < 2 or not any(known.values()) or not subject.wanted.has_hugetlb:
        return
    found = ", ".join(f"{count} on {name}" for name, count in known.items())
    if max(known.values()) <= UNEVEN * min(known.values()):
        yield ok(found)
        return
    low = min(known, key=lambda name: known[name])
    share = sum(known.values()) // len(known)
    yield warning(
        f"{found}: most of the cache is far from half of the processors",
        f"`echo {share} > {folder}/{low}/hugepages/hugepages-2048kB/nr_hugepages`, and likewise",
    )


@check("transparent huge pages", "without reserved pages an arena falls back to these")
def transparent(subject: Subject) -> Iterator[Finding]:
    """Not switched off where an arena needs them."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    now = _chosen(subject.machine.text(path))
    arena = subject.wanted.arena
    fix = f"`echo madvise > {path}`"
    if now != "never" or arena in ("hugetlb", "plain") or subject.wanted.arena_file:
        yield ok(f"`{now or 'none'}`, for an arena `{arena}`")
    elif arena == "thp":
        yield error("`never`: an arena `thp` cannot be had", fix)
    elif is_swappable(subject):
        yield warning("`never`, and there are no reserved ones: the arena has small pages", fix)
    else:
        yield ok("`never`; reserved ones are there")


@check(
    "huge pages of shared memory", "an arena `memfd` has huge pages only where these are allowed"
)
def shared_transparent(subject: Subject) -> Iterator[Finding]:
    """Allowed where the arena is a memfd."""
    path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
    now = _chosen(subject.machine.text(path))
    is_memfd = subject.wanted.arena == "memfd" or (
        subject.wanted.arena == "auto" and subject.wanted.is_known and is_swappable(subject)
    )
    if is_memfd and now in ("never", "deny"):
        yield warning(
            f"`{now}`: the arena has pages of 4 KiB, which are copied into sockets",
            f"`echo advise > {path}`, or reserve huge pages",
        )
    else:
        yield ok(f"`{now or 'none'}`")


@check("free memory", "a node that finds too little does not start")
def enough_memory(subject: Subject) -> Iterator[Finding]:
    """Enough for an arena that is not of reserved pages: of the machine, and in its container."""
    wanted = subject.wanted
    available = free_memory(subject.machine.root) or 0
    found = f"{format_bytes(available)} are available"
    if not wanted.memory_bytes or not is_swappable(subject) or subject.machine.nodes_here():
        yield ok(found)
    elif available < wanted.memory_bytes:
        fix = f'`memory = "{max(available * 8 // 10 // MIB, 16)}MiB"`, or end what holds the rest'
        yield error(f"{found}, {format_bytes(wanted.memory_bytes)} are wanted", fix)
    else:
        yield ok(f"{found}, {format_bytes(wanted.memory_bytes)} are wanted")


@check("swap", "a page of the cache that is read from swap is slower than computing it again")
def swap(subject: Subject) -> Iterator[Finding]:
    """None, or an arena that never goes there."""
    fields = subject.machine.memory()
    total = fields.get("SwapTotal", 0)
    if total and is_swappable(subject) and subject.wanted.is_known:
        yield warning(
            f"{format_bytes(total)} of swap, and an arena that may go there",
            '`swapoff -a`, or `arena = "hugetlb"`: such pages are never swapped',
        )
    else:
        yield ok(f"{format_bytes(total)} of swap")


@check(
    "overcommit", "with strict accounting every mapping counts in full, the engines' large ones too"
)
def overcommit(subject: Subject) -> Iterator[Finding]:
    """Not strict, or room enough."""
    mode = subject.machine.sysctl_number("vm.overcommit_memory") or 0
    fields = subject.machine.memory()
    left = fields.get("CommitLimit", 0) - fields.get("Committed_AS", 0)
    wanted = subject.wanted.memory_bytes if is_swappable(subject) else 0
    if mode != 2:
        yield ok(f"vm.overcommit_memory is {mode}")
    elif wanted > max(left, 0):
        yield error(
            f"vm.overcommit_memory is 2: {format_bytes(max(left, 0))} may still be mapped, "
            f"{format_bytes(wanted)} are wanted",
            "`sysctl -w vm.overcommit_memory=0`",
        )
    else:
        yield warning(
            f"vm.overcommit_memory is 2: {format_bytes(max(left, 0))} may still be mapped",
            "`sysctl -w vm.overcommit_memory=0`: engines map far more than they use",
        )


@check("locked memory", "memory that a NIC reads by itself is locked: RDMA needs it")
def locked(subject: Subject) -> Iterator[Finding]:
    """Enough, where there is a device that needs it."""
    limit = subject.machine.limit("Max locked memory")
    if limit is None:
        return
    devices = subject.machine.names("/sys/class/infiniband")
    found = f"limit {'none' if limit >= UNLIMITED else format_bytes(limit)}"
    if limit >= MEMLOCK_BYTES or not devices:
        yield ok(found)
    else:
        yield warning(
            found,
            "`LimitMEMLOCK=infinity` in the unit, `--ulimit memlock=-1` for a container, or "
            "`* - memlock unlimited` in /etc/security/limits.conf",
        )


@check("/dev/shm", "kept arenas lie there, and the pools and messages of engines")
def shared_memory(subject: Subject) -> Iterator[Finding]:
    """Large enough for whoever uses it here."""
    machine, wanted = subject.machine, subject.wanted
    room = machine.probes.room(str(machine.path("/dev/shm")))
    if room is None:
        yield warning("there is no /dev/shm", "`mount -t tmpfs tmpfs /dev/shm`")
        return
    needed = _needed_shm(wanted, subject.engine)
    found = f"{format_bytes(room.size_bytes)}, {format_bytes(room.free_bytes)} free"
    has_own = wanted.arena_file and machine.exists(wanted.arena_file)
    if room.size_bytes >= needed and (has_own or room.free_bytes >= needed):
        yield ok(found)
        return
    size = f"{-(-needed // GIB)}g"
    fix = f"`mount -o remount,size={size} /dev/shm`; for a container `--shm-size={size}`"
    is_arena = wanted.arena_file.startswith("/dev/shm/")
    yield (error if is_arena else warning)(f"{found}; {format_bytes(needed)} are needed", fix)


def _needed_shm(wanted: Wanted, engine: str) -> int:
    if wanted.arena_file.startswith("/dev/shm/"):
        return wanted.memory_bytes
    return SHM_BYTES_ENGINE if engine else 0


@check("arena file", "what is kept there outlives the process; on a disk every page is written out")
def arena_file(subject: Subject) -> Iterator[Finding]:
    """On hugetlbfs or tmpfs, or on a disk of this machine."""
    path = subject.wanted.arena_file
    if not path:
        return
    mount = subject.machine.mount_of(path)
    found = f"{path} is on {mount.kind or 'an unknown file system'}, mounted at {mount.point}"
    fix = '`arena = "file:/dev/hugepages/NAME"`, or below /dev/shm'
    if "hugepages" in path and mount.kind != "hugetlbfs":
        yield error(f"{found}, not hugetlbfs", "`mount -t hugetlbfs none /dev/hugepages`")
    elif mount.kind in ("overlay", "nfs", "nfs4", "fuse", "9p", "cifs"):
        yield error(f"{found}: its pages are slow, or not shared memory at all", fix)
    elif mount.kind not in ("hugetlbfs", "tmpfs"):
        yield note(f"{found}: its pages are written to that disk all the time", fix)
    else:
        yield ok(found)


@check("memfd", "arenas are memfds, and a kernel that wants them marked refuses unmarked ones")
def memfd(subject: Subject) -> Iterator[Finding]:
    """Not refused by a sysctl."""
    mode = subject.machine.sysctl_number("vm.memfd_noexec")
    if mode != 2:
        yield ok(f"vm.memfd_noexec is {mode if mode is not None else 'not there'}")
        return
    is_needed = subject.wanted.arena in ("hugetlb", "memfd")
    yield (error if is_needed else warning)(
        "vm.memfd_noexec is 2: no arena `hugetlb` or `memfd` can be made",
        "`sysctl -w vm.memfd_noexec=1`",
    )


def _chosen(text: str) -> str:
    """``always [madvise] never`` is ``madvise``."""
    return text.partition("[")[2].partition("]")[0]
