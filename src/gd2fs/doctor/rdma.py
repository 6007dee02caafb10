"""RDMA: cards that move bytes without a processor, and the library that drives them."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject
from gd2fs.errors import GD2FSError
from gd2fs.ucx import CARDS

FOLDER = str(CARDS)
DRIVER = "/proc/driver/nvidia/version"
PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
OPEN_DRIVER = "Open Kernel Module"
DMABUF_KERNEL = (5, 12)
INSTALL = (
    '`pip install "gd2fs[rdma]"`, or the system\'s UCX with InfiniBand; `--ucx FILE` names one'
)


@check("RDMA devices", "through an active port bytes go into registered memory without a processor")
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


@check("UCX", "UCX drives the cards: without one that can, nodes and clients use TCP")
def ucx(subject: Subject) -> Iterator[Finding]:
    """One that can be loaded and drives cards, where there are some; one at all for `--rdma on`."""
    has_cards, use = bool(subject.machine.names(FOLDER)), subject.setting("rdma")
    if use == "off" or (not has_cards and use != "on"):
        yield ok("not needed: " + ("RDMA is turned off" if use == "off" else "there is no card"))
        return
    is_demanded = use == "on"
    try:
        found = subject.machine.probes.ucx(subject.setting("ucx"), subject.machine.path(FOLDER))
    except GD2FSError as fault:
        yield (error if is_demanded else warning)(str(fault), INSTALL)
        return
    if has_cards and not found.knows_cards:
        yield warning(f"{found}, which was built without support of cards", INSTALL)
    else:
        yield ok(str(found))


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
    elif OPEN_DRIVER in driver and (machine.kernel_version() or (0, 0)) >= DMABUF_KERNEL:
        yield ok("by dma-buf: NVIDIA's open kernel modules on a kernel that has it")
    else:
        yield note(
            "no nvidia_peermem, and no dma-buf of NVIDIA's open kernel modules",
            "`modprobe nvidia_peermem`; or install the driver's open kernel modules",
        )
