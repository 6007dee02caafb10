"""RDMA: devices that could move bytes without a processor, and the library for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, note, ok
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject

FOLDER = "/sys/class/infiniband"
DRIVER = "/proc/driver/nvidia/version"
PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
OPEN_DRIVER = "Open Kernel Module"
DMABUF_KERNEL = (5, 12)
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
    """The library that drives RDMA devices, where there are some."""
    library = subject.machine.probes.library("ucp")
    devices_here = subject.machine.names(FOLDER)
    if library:
        yield ok(f"{library} is here")
    elif devices_here:
        yield note(
            f"{' and '.join(devices_here)} could move bytes, and UCX is not here: TCP is used",
            "`apt install libucx0 ibverbs-providers`, or what this system has of UCX 1.13 or newer",
        )
    else:
        yield ok("not here, and not needed: there is no RDMA device")


@check("GPUDirect", "without a way from the NIC to a GPU's memory, bytes pass through host memory")
def peer_memory(subject: Subject) -> Iterator[Finding]:
    """The kernel lets NICs read and write a GPU's memory."""
    machine = subject.machine
    driver = machine.text(DRIVER)
    if not driver or not machine.names(FOLDER):
        return
    loaded = [name for name in PEER_MODULES if machine.exists(f"/sys/module/{name}")]
    if loaded:
        yield ok(f"{loaded[0]} is loaded")
    elif OPEN_DRIVER in driver and _kernel(machine) >= DMABUF_KERNEL:
        yield ok("by dma-buf: NVIDIA's open kernel modules on a kernel that has it")
    else:
        yield note(
            "no nvidia_peermem, and no dma-buf of NVIDIA's open kernel modules",
            "`modprobe nvidia_peermem`; or install the driver's open kernel modules",
        )


def _kernel(machine: Machine) -> tuple[int, int]:
    """Major and minor of its version; 0, 0 where it is not told."""
    numbers = re.match(r"(\d+)\.(\d+)", machine.sysctl("kernel.osrelease"))
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
