"""Device: a GPU or a NIC, and the bridges between it and its processor."""

from __future__ import annotations

from dataclasses import dataclass

NUMA_UNKNOWN = -1
NVIDIA = "0x10de"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a PCI function is.

    Attributes:
        address: ``0000:1b:00.0``.
        steps: From the root complex, ``pci0000:17``, over its bridges to the function itself.
        numa_node: That it is attached to; -1: the machine does not tell.
    """

    address: str
    steps: tuple[str, ...]
    numa_node: int = NUMA_UNKNOWN


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: Among those of this machine, by PCI address: CUDA's with
            ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
        uuid: ``GPU-…``, where its driver tells; else empty.
        model: Likewise.
    """

    place: Place
    index: int
    vendor: str
    uuid: str = ""
    model: str = ""

    @property
    def name(self) -> str:
        """``GPU0``."""
        return f"GPU{self.index}"


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a NIC.

    Attributes:
        name: As `ip link` shows it.
        is_up: It has a carrier, as far as it tells.
        speed_mbit: Megabits a second; 0: it does not tell.
        uppers: Interfaces on top of it, which may have its addresses: bonds, bridges, VLANs.
    """

    name: str
    is_up: bool
    speed_mbit: int = 0
    uppers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device, ``mlx5_0`` and 1."""

    device: str
    port: int
    is_active: bool
    speed_mbit: int = 0


@dataclass(frozen=True, slots=True)
class Nic:
    """One NIC, or a virtual function of one.

    Attributes:
        index: Among those of this machine, by PCI address.
        physical: Address of the function that this is a virtual one of; empty for a real one.
    """

    place: Place
    index: int
    interfaces: tuple[Interface, ...] = ()
    ports: tuple[RdmaPort, ...] = ()
    physical: str = ""

    @property
    def name(self) -> str:
        """``NIC0``."""
        return f"NIC{self.index}"

    @property
    def names(self) -> tuple[str, ...]:
        """Of its RDMA devices, then of its interfaces."""
        devices = dict.fromkeys(port.device for port in self.ports)
        return (*devices, *(each.name for each in self.interfaces))

    @property
    def is_up(self) -> bool:
        """One of its interfaces or ports is."""
        return any(each.is_up for each in self.interfaces) or self.has_rdma

    @property
    def has_rdma(self) -> bool:
        """One of its ports is active."""
        return any(port.is_active for port in self.ports)

    @property
    def speed_mbit(self) -> int:
        """Of its fastest interface or port; 0: not known."""
        speeds = [each.speed_mbit for each in self.interfaces]
        return max([*speeds, *(port.speed_mbit for port in self.ports)], default=0)
