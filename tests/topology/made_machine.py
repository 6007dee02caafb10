"""A machine as sysfs shows it, made below a folder from a short description.

Shapes are those of real machines: names of folders, links and files as kernels write them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

NVIDIA, MELLANOX, VIRTIO, ASPEED = "0x10de", "0x15b3", "0x1af4", "0x1a03"


@dataclass
class MadeMachine:
    """``root``: what stands for /."""

    root: Path

    def numa_nodes(self, count: int) -> None:
        for number in range(count):
            (self.root / f"sys/devices/system/node/node{number}").mkdir(parents=True)

    def function(self, path: str, kind: str, vendor: str, numa: int = -1) -> str:
        """A PCI function: ``path`` is its folder below /sys/devices. Its address."""
        address = path.rsplit("/", 1)[1]
        folder = f"/sys/devices/{path}"
        self.write(f"{folder}/class", kind)
        self.write(f"{folder}/vendor", vendor)
        self.write(f"{folder}/numa_node", f"{numa}")
        self.link(f"/sys/bus/pci/devices/{address}", folder)
        return address

    def gpu(self, path: str, numa: int = -1, uuid: str = "", vendor: str = NVIDIA) -> str:
        address = self.function(path, "0x030200", vendor, numa)
        if uuid:
            text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nDevice Minor: \t 0"
            self.write(f"/proc/driver/nvidia/gpus/{address}/information", text)
        return address

    def nic(
        self,
        path: str,
        interface: str,
        numa: int = -1,
        *,
        speed: int = 400_000,
        rdma: str = "",
        is_up: bool = True,
        below: str = "",
    ) -> str:
        """``below``: a folder between the function and its interface, as virtio has."""
        kind = "0x020700" if interface.startswith("ib") else "0x020000"
        address = self.function(path, kind, VIRTIO if below else MELLANOX, numa)
        device = f"/sys/devices/{path}" + (f"/{below}" if below else "")
        folder = f"{device}/net/{interface}"
        self.write(f"{folder}/operstate", "up" if is_up else "down")
        self.write(f"{folder}/speed", f"{speed if is_up else -1}")
        self.link(f"{folder}/device", device)
        self.link(f"/sys/class/net/{interface}", folder)
        if rdma:
            self.rdma(rdma, device, f"{speed // 1000} Gb/sec (4X NDR)", is_up=is_up)
        return address

    def rdma(self, name: str, device: str, rate: str, *, is_up: bool) -> None:
        folder = f"{device}/infiniband/{name}"
        self.write(f"{folder}/ports/1/state", "4: ACTIVE" if is_up else "1: DOWN")
        self.write(f"{folder}/ports/1/rate", rate)
        self.link(f"{folder}/device", device)
        self.link(f"/sys/class/infiniband/{name}", folder)

    def write(self, path: str, text: str) -> None:
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text + "\n")

    def link(self, path: str, target: str) -> None:
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(os.path.relpath(self.root / target.lstrip("/"), there.parent))


def dgx(root: Path) -> MadeMachine:
    """Two sockets, each with four root complexes of one switch: a GPU and a NIC below it. Two more
    NICs for storage, one for each socket, and one of 1 Gbit/s for its keep."""
    machine = MadeMachine(root)
    machine.numa_nodes(2)
    for number in range(8):
        bus, numa = 0x10 + 0x18 * number, number // 4
        switch = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        nic = f"{switch}/0000:{bus + 2:02x}:00.0/0000:{bus + 3:02x}:00.0"
        gpu = f"{switch}/0000:{bus + 2:02x}:01.0/0000:{bus + 4:02x}:00.0"
        machine.nic(nic, f"ib{number}", numa, rdma=f"mlx5_{number}")
        machine.gpu(gpu, numa, f"GPU-{number}0000000-aaaa-bbbb-cccc-dddddddddddd")
    for number, (bus, numa) in enumerate([(0xD8, 0), (0xE8, 1)]):
        path = f"pci0000:{bus:02x}/0000:{bus:02x}:01.0/0000:{bus + 1:02x}:00.0"
        machine.nic(path, f"ens{number}", numa, rdma=f"mlx5_{number + 8}")
    machine.nic("pci0000:00/0000:00:1c.0/0000:01:00.0", "eno1", 0, speed=1_000)
    machine.function("pci0000:00/0000:00:1d.0/0000:02:00.0", "0x030000", ASPEED, 0)
    return machine


def two_sockets(root: Path) -> MadeMachine:
    """One NIC at the first socket, a GPU at each. Its NIC has two ports, the second one is empty;
    a virtual function of the first is up."""
    machine = MadeMachine(root)
    machine.numa_nodes(2)
    port = "pci0000:3a/0000:3a:00.0"
    first = machine.nic(f"{port}/0000:3b:00.0", "ens1f0", 0, speed=100_000, rdma="mlx5_0")
    machine.nic(f"{port}/0000:3b:00.1", "ens1f1", 0, is_up=False, rdma="mlx5_1")
    virtual = f"{port}/0000:3b:00.2"
    machine.nic(virtual, "ens1f0v0", 0, speed=100_000)
    machine.link(f"/sys/devices/{virtual}/physfn", f"/sys/devices/{port}/{first}")
    machine.gpu("pci0000:17/0000:17:00.0/0000:18:00.0", 0)
    machine.gpu("pci0000:d7/0000:d7:00.0/0000:d8:00.0", 1)
    return machine


def cloud(root: Path) -> MadeMachine:
    """A virtual machine: all on one bus, no NUMA node told, interfaces below virtio."""
    machine = MadeMachine(root)
    machine.numa_nodes(1)
    for number in range(4):
        machine.gpu(f"pci0000:00/0000:00:{0x10 + number:02x}.0")
    for number in range(2):
        path = f"pci0000:00/0000:00:{3 + number:02x}.0"
        machine.nic(path, f"eth{number}", speed=0, below=f"virtio{number}")
    return machine
