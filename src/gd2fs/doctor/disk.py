"""Disk: the folders below memory, and those that keep what outlives a process."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes

REMOTE = ("nfs", "nfs4", "cifs", "9p", "ceph", "lustre", "fuse", "virtiofs")
GOOD = ("ext4", "xfs", "btrfs", "f2fs")
FREE_SHARE = 0.05  # of a file system that is nearly full
WAITING = ("none", "mq-deadline", "kyber")
VIRTUAL = ("vd", "xvd")  # say that they rotate, whatever is behind them


def _folder(machine: Machine, path: str) -> str:
    """``path``, or the first folder above it that is there: a node makes what is missing."""
    path = os.path.abspath(path)
    while not machine.exists(path) and path != "/":
        path = os.path.dirname(path)
    return path


@check("file system", "segments are allocated ahead and written past the page cache")
def file_system(subject: Subject) -> Iterator[Finding]:
    """A disk of this machine."""
    for place in subject.wanted.nvme:
        kind = subject.machine.mount_of(_folder(subject.machine, place.folder)).kind
        found = f"{place.folder} is on {kind or 'an unknown file system'}"
        fix = '`nvme = "FOLDER"` on ext4 or xfs of a local NVMe device'
        if kind in ("tmpfs", "ramfs"):
            yield error(f"{found}: that is memory", fix)
        elif kind in REMOTE:
            yield error(f"{found}: that is another machine's disk", fix)
        elif kind == "overlay":
            yield warning(f"{found}: the container's own layer, which goes with it", fix)
        elif kind in GOOD:
            yield ok(found)
        else:
            yield note(f"{found}, which nobody has tried", fix)


@check(
    "direct I/O", "bytes go between disk and arena; through the page cache they take memory twice"
)
def direct(subject: Subject) -> Iterator[Finding]:
    """Possible, and allowed."""
    machine = subject.machine
    for place in subject.wanted.nvme:
        folder = _folder(machine, place.folder)
        fault = machine.probes.direct_fault(str(machine.path(folder)))
        if not fault:
            yield ok(f"{place.folder} can be written")
        elif "direct" in fault:
            fix = "take a folder on ext4 or xfs; encrypted and union file systems often have none"
            yield error(f"{place.folder}: {fault}", fix)
        else:
            yield error(
                f"{place.folder} cannot be written to: {fault}",
                f"`install -d -o USER {place.folder}` for the node's user; look at `mount`",
            )


@check("room on disk", "a place whose file system is full is left out, and tried again every 10 s")
def room(subject: Subject) -> Iterator[Finding]:
    """What is asked for is there."""
    machine = subject.machine
    for place in subject.wanted.nvme:
        there = machine.probes.room(str(machine.path(_folder(machine, place.folder))))
        if there is None:
            continue
        own = _own_bytes(machine, place.folder)
        found = f"{place.folder}: {format_bytes(there.free_bytes + own)} for its use"
        if place.bytes_max > there.free_bytes + own:
            size = f"{(there.free_bytes + own) * 9 // 10 >> 30}GiB"
            yield error(
                f"{found}, {format_bytes(place.bytes_max)} are asked for",
                f'`nvme = "{place.folder}:{size}"`, or leave the size out',
            )
        elif there.free_bytes + own < FREE_SHARE * there.size_bytes:
            yield warning(f"{found}, of {format_bytes(there.size_bytes)}", "make room there")
        else:
            yield ok(found)


def _own_bytes(machine: Machine, folder: str) -> int:
    """What an earlier run has taken there already."""
    files = (machine.status(f"{folder}/{name}") for name in machine.names(folder))
    return sum(each.st_blocks * 512 for each in files if each is not None)


@check("devices", "two folders on one device share its rate, and fail together")
def devices(subject: Subject) -> Iterator[Finding]:
    """One folder on each."""
    machine = subject.machine
    sources: dict[str, list[str]] = {}
    for place in subject.wanted.nvme:
        mount = machine.mount_of(_folder(machine, place.folder))
        sources.setdefault(mount.source + mount.point, []).append(place.folder)
    for folders in sources.values():
        if len(folders) > 1:
            yield warning(
                f"{' and '.join(folders)} are on one file system",
                f'`nvme = "{folders[0]}"` alone, or mount another device at {folders[1]}',
            )
        else:
            yield ok(f"{folders[0]} has one of its own")


@check("kind of device", "reads of a spinning disk are slower than computing what was asked for")
def kind(subject: Subject) -> Iterator[Finding]:
    """NVMe, or at least without moving parts."""
    for place in subject.wanted.nvme:
        device = _device(subject.machine, place.folder)
        if not device:
            continue
        queue = f"/sys/block/{device}/queue"
        scheduler = subject.machine.text(f"{queue}/scheduler")
        chosen = scheduler.partition("[")[2].partition("]")[0] or "none"
        rotates = subject.machine.number(f"{queue}/rotational") == 1
        if rotates and device.startswith(VIRTUAL):
            yield ok(f"{place.folder} is on {device}, of a virtual machine")
        elif rotates:
            yield warning(f"{place.folder} is on {device}, which rotates", "take an NVMe device")
        elif chosen not in WAITING:
            fix = f"`echo none > {queue}/scheduler`"
            yield note(f"{place.folder} is on {device}, scheduler `{chosen}`", fix)
        else:
            yield ok(f"{place.folder} is on {device}, scheduler `{chosen}`")


def _device(machine: Machine, folder: str) -> str:
    """Name below /sys/block of what a folder's file system is on; empty: none, or several."""
    source = machine.mount_of(_folder(machine, folder)).source
    if not source.startswith("/dev/"):
        return ""
    name = os.path.basename(machine.real(source) if machine.exists(source) else source)
    blocks = machine.names("/sys/block")
    above = [each for each in blocks if name == each or machine.exists(f"/sys/block/{each}/{name}")]
    return above[0] if above else ""


@check("state folder", "a node that loses it is another node with the same name")
def state_folder(subject: Subject) -> Iterator[Finding]:
    """On a disk that stays, for this user alone."""
    path = subject.wanted.state_dir
    if not path:
        return
    machine = subject.machine
    mount = machine.mount_of(_folder(machine, path))
    status = machine.status(path)
    if mount.kind in ("tmpfs", "ramfs", "overlay"):
        fix = '`state_dir = "/var/lib/gd2fs/NAME"` on a disk or a volume of the node\'s own'
        yield warning(f"{path} is on {mount.kind}: it goes with the machine or the container", fix)
    elif mount.kind in REMOTE:
        yield warning(f"{path} is on {mount.kind}: every change waits for it", "take a local disk")
    elif status is not None and status.st_mode & 0o022:
        yield error(f"{path} can be written to by others", f"`chmod go-w {path}`")
    else:
        yield ok(f"{path} is on {mount.kind or 'an unknown file system'}")
