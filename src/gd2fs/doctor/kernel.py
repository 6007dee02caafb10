"""Kernel: its version, what it lets programs do, its clocks, and how many files one may open."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes

VERSION_MIN = (5, 1)  # F_SEAL_FUTURE_WRITE: memory that can be shared and not be written to
VERSION_GOOD = (5, 10)  # io_uring as it is used here
FILES_MIN = 8192  # 4,096 connections, and segments of the disk tier
FILES_ENGINE = 1024  # streams of a client to every node, beside the engine's own files
PIPE_BYTES = 1 << 20
PAGE_BYTES = 4096
PIPES = 16  # that a node keeps for zero copy
CLOCKS = ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "arm,sp804")


@check("kernel", "older kernels lack what sharing memory and reading disks without threads need")
def version(subject: Subject) -> Iterator[Finding]:
    """5.10 or newer."""
    text = subject.machine.sysctl("kernel.osrelease")
    now = subject.machine.kernel_version()
    if now is None:
        return
    fix = "update the kernel to 5.10 or newer"
    if now < VERSION_MIN:
        yield error(f"{text}: memory cannot be shared", fix)
    elif now < VERSION_GOOD:
        yield warning(text, fix)
    else:
        yield ok(text)


@check("io_uring", "the disk tier reads and writes with it; without it, by a thread for each call")
def io_uring(subject: Subject) -> Iterator[Finding]:
    """Allowed, where there is a disk tier."""
    machine = subject.machine
    setting = machine.sysctl_number("kernel.io_uring_disabled") or 0
    fault = machine.probes.io_uring_fault()
    if not fault and (setting == 0 or (setting == 1 and machine.probes.user() == 0)):
        yield ok("it works")
        return
    found = f"kernel.io_uring_disabled is {setting}" if setting else f"{fault} when it is tried"
    fix = "`sysctl -w kernel.io_uring_disabled=0`"
    if not setting:
        fix = "allow its system calls: `--security-opt seccomp=FILE`, or a newer kernel"
    if subject.wanted.nvme:
        yield warning(found, fix)
    else:
        yield ok(f"{found}; there is no disk tier here that needs it")


@check(
    "pipes", "reads leave the arena through pipes of 1 MiB; smaller ones are slower than copying"
)
def pipes(subject: Subject) -> Iterator[Finding]:
    """Large enough, and as many as a node needs."""
    most = subject.machine.sysctl_number("fs.pipe-max-size")
    if most is not None and most < PIPE_BYTES:
        yield warning(
            f"fs.pipe-max-size is {format_bytes(most)}",
            f"`sysctl -w fs.pipe-max-size={PIPE_BYTES}`",
        )
    elif most is not None:
        yield ok(f"fs.pipe-max-size is {format_bytes(most)}")
    pages = subject.machine.sysctl_number("fs.pipe-user-pages-soft")
    needed = PIPES * PIPE_BYTES // PAGE_BYTES
    if pages is not None and 0 < pages < needed:
        yield warning(
            f"fs.pipe-user-pages-soft is {pages}: pipes of one user beyond "
            f"{format_bytes(pages * PAGE_BYTES)} in all are small",
            f"`sysctl -w fs.pipe-user-pages-soft={4 * needed}`",
        )
    elif pages is not None:
        yield ok(f"fs.pipe-user-pages-soft is {pages or 'no limit'}")


@check("open files", "a connection or a segment that cannot be opened is refused")
def open_files(subject: Subject) -> Iterator[Finding]:
    """Enough for all connections."""
    limit = subject.machine.limit("Max open files")
    if limit is None:
        return
    needed = FILES_MIN if subject.wanted.is_known else FILES_ENGINE
    found = f"limit {limit}"
    if limit >= needed:
        yield ok(found)
    else:
        yield warning(
            f"{found}, {needed} may be needed",
            "`LimitNOFILE=65536` in the unit, `--ulimit nofile=65536`, or `ulimit -n 65536`",
        )


@check("clock source", "every deadline reads the clock; a slow source is a system call each time")
def clock_source(subject: Subject) -> Iterator[Finding]:
    """One that is read without a system call."""
    folder = "/sys/devices/system/clocksource/clocksource0"
    now = subject.machine.text(f"{folder}/current_clocksource")
    there = subject.machine.text(f"{folder}/available_clocksource").split()
    quick = [each for each in there if each in CLOCKS]
    if not now or now in CLOCKS:
        yield ok(now or "unknown")
    elif quick:
        fix = (
            f"`echo {quick[0]} > {folder}/current_clocksource`; boot with `clocksource={quick[0]}`"
        )
        yield warning(now, fix)
    else:
        fix = "look with `dmesg | grep -i tsc` why the kernel does not trust it"
        yield warning(f"{now}, and there is no quick one", fix)


@check("clock", "times to live, certificates and logs are by the clock of each node")
def clock(subject: Subject) -> Iterator[Finding]:
    """Somebody keeps it right."""
    is_kept = subject.machine.probes.is_clock_synchronised()
    if is_kept is False:
        yield note(
            "nobody keeps this machine's clock right",
            "`timedatectl set-ntp true`, or start chrony; in a guest its host may do it",
        )
    elif is_kept:
        yield ok("it is kept right")


@check("processor frequency", "a processor that saves power copies at half the rate")
def governor(subject: Subject) -> Iterator[Finding]:
    """Not held down."""
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    now = subject.machine.text(path)
    driver = subject.machine.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver")
    if now == "powersave" and driver not in ("intel_pstate", "amd-pstate-epp"):
        fix = "`cpupower frequency-set -g performance`"
        yield warning(f"governor `{now}` of `{driver}`: the lowest frequency", fix)
    elif now:
        yield ok(f"governor `{now}`")
