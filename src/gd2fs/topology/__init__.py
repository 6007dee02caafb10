"""Topology: which NICs of a machine are near which GPU, as sysfs tells it.

``device`` is what GPUs and NICs are, ``distance`` how far apart they lie, ``reading`` takes them
from a machine, ``nearest`` chooses, ``affinity`` gives a client its addresses.
"""

from gd2fs.topology.affinity import addresses_near, interface_addresses
from gd2fs.topology.device import Gpu, Interface, Nic, RdmaPort
from gd2fs.topology.distance import Distance, distance
from gd2fs.topology.nearest import Topology
from gd2fs.topology.reading import read_topology

__all__ = [
    "Distance",
    "Gpu",
    "Interface",
    "Nic",
    "RdmaPort",
    "Topology",
    "addresses_near",
    "distance",
    "interface_addresses",
    "read_topology",
]
