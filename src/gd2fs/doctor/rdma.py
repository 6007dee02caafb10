"""RDMA: devices that could move bytes without a processor, and the library for them."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, note, ok
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject

FOLDER = "/sys/class/infiniband"
WHY = (
    "this version moves bytes over shared memory, Unix sockets and TCP; of RDMA it makes no use yet"
)


@check("RDMA devices", WHY)
def devices(subject: Subject) -> Iterator[Finding]:
    """Their state, where there are some."""
    machine = subject.machine
    names = machine.names(FOLDER)
    if not names:
        yield ok("none; TCP is used between machines")
    for name in names:
        yield from _ports(machine, name)


def _ports(machine: Machine, name: str) -> Iterator[Finding]:
    for port in machine.names(f"{FOLDER}/{name}/ports"):
        folder = f"{FOLDER}/{name}/ports/{port}"
        state = machine.text(f"{folder}/state").partition(":")[2].strip() or "unknown"
        rate, kind = machine.text(f"{folder}/rate"), machine.text(f"{folder}/link_layer")
        found = f"{name} port {port}: {state}, {rate or 'rate unknown'}, {kind or 'unknown layer'}"
        if state == "ACTIVE":
            yield ok(found)
        else:
            yield note(found, f"`ibstat {name}`; on InfiniBand the subnet manager makes it active")


@check("UCX", WHY)
def ucx(subject: Subject) -> Iterator[Finding]:
    """There or not, and what that means."""
    library = subject.machine.probes.library("ucp")
    if library:
        yield ok(f"{library} is here; not used by this version")
    else:
        yield ok("not here, and not needed by this version")


@check("GPUDirect", WHY)
def peer_memory(subject: Subject) -> Iterator[Finding]:
    """The kernel's module for NICs that read a GPU's memory."""
    machine = subject.machine
    has_gpu = machine.exists("/proc/driver/nvidia/version")
    if not has_gpu or not machine.names(FOLDER):
        return
    loaded = [
        name for name in ("nvidia_peermem", "nv_peer_mem") if machine.exists(f"/sys/module/{name}")
    ]
    if loaded:
        yield ok(f"{loaded[0]} is loaded; not used by this version")
    else:
        yield note("no nvidia_peermem; not needed by this version", "`modprobe nvidia_peermem`")
