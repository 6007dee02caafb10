"""Reading: the GPUs and NICs of a machine, from /sys and /proc below a root folder.

The path of bridges is in the name of the folder that a device's link leads to:
/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0 is a device below the root port 17:01.0 of the
root complex pci0000:17. Network interfaces and RDMA devices are found from their own classes, since
some have a bus of their own between them and their PCI function (virtio).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gd2fs.topology.device import NUMA_UNKNOWN, NVIDIA, Gpu, Interface, Nic, Place, RdmaPort
from gd2fs.topology.nearest import Topology

PCI = "sys/bus/pci/devices"
NET = "sys/class/net"
RDMA = "sys/class/infiniband"
NODES = "sys/devices/system/node"
DRIVER = "proc/driver/nvidia/gpus"

GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")  # display, 3D, other display, accelerator
GPU_VENDORS = (NVIDIA, "0x1002", "0x8086")
NIC_CLASSES = ("0x0200", "0x0207")  # Ethernet, InfiniBand
STEP = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
NODE = re.compile(r"node\d+")
DOWN = ("down", "lowerlayerdown", "notpresent", "dormant")
ACTIVE = "4"  # a port's state: `4: ACTIVE`
DEVICES_MAX = 4096  # PCI functions that are looked at
TEXT_BYTES_MAX = 4096


def read_topology(root: Path | str = "/") -> Topology:
    """The devices below ``root``. What is not there, or may not be read, is left out."""
    folder = Path(root)
    places = _places(folder)
    nodes = sum(NODE.fullmatch(name) is not None for name in _names(folder / NODES))
    if nodes < 2:  # then all is near, whatever a virtual machine's firmware does not tell
        places = {name: replace(place, numa_node=0) for name, place in places.items()}
    return Topology(tuple(_gpus(folder, places)), tuple(_nics(folder, places)), max(nodes, 1))


def _places(root: Path) -> dict[str, Place]:
    """Of every PCI function, by address, in the order of addresses."""
    places = {}
    for name in sorted(_names(root / PCI)[:DEVICES_MAX], key=_order):
        node = _text(root / PCI / name / "numa_node")
        is_known = node.isdigit()
        steps = _steps(root / PCI / name)
        places[name] = Place(name, steps or (name,), int(node) if is_known else NUMA_UNKNOWN)
    return places


def _gpus(root: Path, places: Mapping[str, Place]) -> Iterator[Gpu]:
    """Indexes count NVIDIA's alone where there are some: a display on the board is not CUDA's."""
    told = _told_by_driver(root)
    found = []
    for name, place in places.items():
        vendor = _text(root / PCI / name / "vendor")
        if _class(root, name) in GPU_CLASSES and vendor in GPU_VENDORS:
            found.append((place, vendor))
    found.sort(key=lambda each: each[1] != NVIDIA)
    for index, (place, vendor) in enumerate(found):
        fields = told.get(place.address, {})
        yield Gpu(place, index, vendor, fields.get("GPU UUID", ""), fields.get("Model", ""))


def _told_by_driver(root: Path) -> dict[str, dict[str, str]]:
    """What NVIDIA's driver says of each of its GPUs, by PCI address."""
    told = {}
    for name in _names(root / DRIVER):
        lines = _text(root / DRIVER / name / "information").splitlines()
        pairs = (line.partition(":") for line in lines)
        told[name.lower()] = {key.strip(): value.strip() for key, _, value in pairs}
    return told


def _nics(root: Path, places: Mapping[str, Place]) -> Iterator[Nic]:
    interfaces = _by_function(root, NET, places)
    devices = _by_function(root, RDMA, places)
    names = [name for name in places if _class(root, name) in NIC_CLASSES]
    for index, name in enumerate(names):
        ports = [port for device in devices.get(name, ()) for port in _ports(root, device)]
        link = root / PCI / name / "physfn"
        yield Nic(
            places[name],
            index,
            tuple(_interface(root, each) for each in interfaces.get(name, ())),
            tuple(ports),
            (_steps(link) or ("",))[-1] if link.is_symlink() else "",
        )


def _by_function(root: Path, folder: str, places: Mapping[str, Place]) -> dict[str, list[str]]:
    """What a class has, by the PCI function that it belongs to."""
    found: dict[str, list[str]] = {}
    for name in sorted(_names(root / folder)):
        steps = _steps(root / folder / name / "device")
        if steps and steps[-1] in places:
            found.setdefault(steps[-1], []).append(name)
    return found


def _interface(root: Path, name: str) -> Interface:
    folder = root / NET / name
    speed = _text(folder / "speed")
    uppers = [each[6:] for each in _names(folder) if each.startswith("upper_")]
    is_up = _text(folder / "operstate") not in DOWN and _text(folder / "carrier") != "0"
    return Interface(name, is_up, int(speed) if speed.isdigit() else 0, tuple(sorted(uppers)))


def _ports(root: Path, device: str) -> Iterator[RdmaPort]:
    folder = root / RDMA / device / "ports"
    for name in sorted(filter(str.isdigit, _names(folder)), key=int):
        rate = _text(folder / name / "rate").split()  # `400 Gb/sec (4X NDR)`
        gbit = float(rate[0]) if rate and rate[0].replace(".", "", 1).isdigit() else 0.0
        state = _text(folder / name / "state").partition(":")[0].strip()
        yield RdmaPort(device, int(name), state == ACTIVE, round(gbit * 1000))


def _class(root: Path, name: str) -> str:
    return _text(root / PCI / name / "class")[:6]


def _steps(link: Path) -> tuple[str, ...]:
    """The parts of a device's real path that are of PCI."""
    return tuple(filter(STEP.fullmatch, os.path.realpath(link).split("/")))


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in re.split(r"[:.]", address))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: Path) -> str:
    try:  # of an interface that is down the kernel refuses to tell the speed
        return path.read_bytes()[:TEXT_BYTES_MAX].decode(errors="replace").strip()
    except OSError:
        return ""
