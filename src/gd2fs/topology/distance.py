"""Distance: what lies between two devices, in the terms of `nvidia-smi topo -m`.

A PCIe switch is one bridge towards the processor (its upstream port) and one for each device below
it (its downstream ports). So two devices of one switch share its upstream port, and each has at
most one bridge of its own below that.

root complex ── root port ── upstream port ─┬─ downstream port ── GPU
                                            └─ downstream port ── NIC      PIX
"""

from __future__ import annotations

from enum import IntEnum
from itertools import takewhile

from gd2fs.topology.device import NUMA_UNKNOWN, Place

ROOT_COMPLEX = "pci"  # how a host bridge's step begins


class Distance(IntEnum):
    """From near to far."""

    SELF = 0
    PIX = 1
    PXB = 2
    PHB = 3
    NODE = 4
    SYS = 5

    @property
    def word(self) -> str:
        """As it is shown."""
        return "X" if self is Distance.SELF else self.name

    @property
    def meaning(self) -> str:
        """What lies between."""
        return _MEANINGS[self]


_MEANINGS = {
    Distance.SELF: "the device itself",
    Distance.PIX: "at most one PCIe switch",
    Distance.PXB: "several PCIe switches, and no host bridge",
    Distance.PHB: "a PCIe host bridge: the processor",
    Distance.NODE: "several host bridges of one NUMA node",
    Distance.SYS: "the link between NUMA nodes",
}


def distance(one: Place, other: Place) -> Distance:
    """What lies between two devices of one machine; of two unknown NUMA nodes the worst."""
    if one.address == other.address:
        return Distance.SELF
    pairs = zip(one.steps, other.steps, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    if shared == 0:
        is_near = one.numa_node == other.numa_node != NUMA_UNKNOWN
        return Distance.NODE if is_near else Distance.SYS
    if one.steps[shared - 1].startswith(ROOT_COMPLEX):
        return Distance.PHB
    bridges = max(len(each.steps) - 1 - shared for each in (one, other))
    return Distance.PIX if bridges <= 1 else Distance.PXB
