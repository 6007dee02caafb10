"""NUMA: memory that is near to some processors and far from others; where NICs and GPUs are."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, ok, warning
from gd2fs.doctor.links import links_for
from gd2fs.doctor.machine import Machine, as_set
from gd2fs.doctor.memory import POOL, is_swappable
from gd2fs.doctor.subject import Subject
from gd2fs.sizes import format_bytes
from gd2fs.topology import Distance, Gpu, Nic, distance, read_topology
from gd2fs.topology.affinity import names_above

NODES = "/sys/devices/system/node"
UNEVEN = 2  # times as much memory on one node as on another


def node_names(machine: Machine) -> list[str]:
    """``node0``, ``node1``, …"""
    return [each for each in machine.names(NODES) if each[:4] == "node" and each[4:].isdigit()]


@check("memory of NUMA nodes", "an arena larger than the near memory lies partly far away")
def balance(subject: Subject) -> Iterator[Finding]:
    """About as much everywhere, and all of it may be used."""
    machine = subject.machine
    sizes = {
        name: machine.memory(f"{NODES}/{name}/meminfo").get("MemTotal", 0)
        for name in node_names(machine)
    }
    found = ", ".join(f"{format_bytes(size)} on {name}" for name, size in sizes.items())
    if len(sizes) < 2:
        yield ok("one node")
    elif max(sizes.values()) > UNEVEN * min(sizes.values()):
        yield warning(
            f"unequal: {found}",
            "look whether a memory module is missing or in the wrong slot (`dmidecode -t memory`); "
            "else give each node of gd2fs one NUMA node (`numactl --membind`)",
        )
    else:
        yield ok(found)


@check("allowed NUMA nodes", "huge pages on a node that may not be used are none")
def allowed(subject: Subject) -> Iterator[Finding]:
    """All that have huge pages."""
    machine = subject.machine
    lines = machine.text("/proc/self/status").splitlines()
    texts = [line.partition(":")[2] for line in lines if line.startswith("Mems_allowed_list")]
    if len(node_names(machine)) < 2 or not texts:
        return
    pool = POOL.rsplit("/", 1)[1]
    closed = [
        name
        for name in node_names(machine)
        if int(name[4:]) not in as_set(texts[0])
        and machine.number(f"{NODES}/{name}/hugepages/{pool}/nr_hugepages")
    ]
    if closed and subject.wanted.has_hugetlb:
        yield warning(
            f"huge pages of {' and '.join(closed)} may not be used from here",
            "`--cpuset-mems` of the container, `AllowedMemoryNodes=` of the unit: name them all",
        )
    else:
        yield ok(f"nodes {texts[0].strip()}")


@check(
    "NUMA balancing", "the kernel unmaps pages now and then to see who uses them, and moves them"
)
def balancing(subject: Subject) -> Iterator[Finding]:
    """Off where an arena is not of reserved pages."""
    machine = subject.machine
    is_on = machine.sysctl_number("kernel.numa_balancing")
    is_many = len(node_names(machine)) > 1
    if is_on and is_many and subject.wanted.is_known and is_swappable(subject):
        yield warning("kernel.numa_balancing is 1", "`sysctl -w kernel.numa_balancing=0`")
    else:
        yield ok(f"kernel.numa_balancing is {is_on}")
    if machine.sysctl_number("vm.zone_reclaim_mode"):
        yield warning(
            "vm.zone_reclaim_mode is on: near memory is freed while far memory is empty",
            "`sysctl -w vm.zone_reclaim_mode=0`",
        )


@check(
    "NICs and NUMA nodes", "bytes from far memory cross between processors on their way to the NIC"
)
def near_memory(subject: Subject) -> Iterator[Finding]:
    """Each NIC has huge pages near."""
    machine = subject.machine
    links = [each for each in links_for(machine, subject.wanted.hosts) if each.numa_node >= 0]
    if len(node_names(machine)) < 2 or not links:
        return
    pool = POOL.rsplit("/", 1)[1]
    for each in links:
        folder = f"{NODES}/node{each.numa_node}/hugepages/{pool}"
        if not machine.number(f"{folder}/nr_hugepages") and machine.number(f"{POOL}/nr_hugepages"):
            yield warning(
                f"{each.name} is at node {each.numa_node}, which has no huge pages",
                f"`echo N > {folder}/nr_hugepages`",
            )
        else:
            yield ok(f"{each.name} is at node {each.numa_node}")


@check("NICs and GPUs", "a GPU whose NIC is on another processor gets its bytes by the longest way")
def near_gpu(subject: Subject) -> Iterator[Finding]:
    """Each GPU has a NIC on its own processor."""
    machine = subject.machine
    links = {each.name for each in links_for(machine, subject.wanted.hosts)}
    topology = read_topology(machine.root)
    nics = [nic for nic in topology.nics if links & names_above(nic)]
    for gpu in topology.gpus:
        for nic in topology.nearest_nics(gpu, 1, among=nics):
            yield _near_or_far(gpu, nic)


def _near_or_far(gpu: Gpu, nic: Nic) -> Finding:
    between = distance(gpu.place, nic.place)
    nodes = (gpu.place.numa_node, nic.place.numa_node)
    name, gpu_name = " ".join(nic.names), f"GPU {gpu.place.address}"
    if between is Distance.SYS and min(nodes) >= 0:  # else the machine does not tell
        return warning(
            f"{gpu_name} is at NUMA node {nodes[0]}, the nearest NIC, {name}, at {nodes[1]}",
            "put a NIC into a slot of that processor; `gd2fs topology` shows what is where",
        )
    return ok(f"{gpu_name}: {name} is near ({between.word}, {between.meaning})")
