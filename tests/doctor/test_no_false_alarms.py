"""What looks odd and is right is no finding: a finding that is none costs trust."""

from __future__ import annotations

import pytest
from doctor.plants import (
    TENANT,
    WHERE,
    both,
    config,
    files,
    gpu_driver,
    mounts,
    one_queue,
    open_driver,
    peer_module,
    probe,
    sysctl,
    tenants,
)
from doctor.well_machine import WellMachine

from gd2fs.doctor import Severity, examine
from gd2fs.nvme import Nvme

V1_UNLIMITED = "9223372036854771712"


def virtual_nic(machine: WellMachine) -> None:
    """As of a container: 10 Gbit/s is what all of them say."""
    machine.write(WHERE["speed"], "10000")
    one_queue(machine)
    (machine.root / "sys/class/net/eth0/device").unlink()


def pod(machine: WellMachine) -> None:
    machine.variables["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    machine.write(WHERE["written"], "")


def node_runs(machine: WellMachine) -> None:
    machine.write(WHERE["free"], "12")
    machine.run(77, ["/usr/bin/python3", "/usr/local/bin/gd2fs", "serve", "--config", "a.toml"])


def one_v6_network(machine: WellMachine) -> None:
    lines = [f"fd00000000000000000000000000000{n} 0{n} 40 00 80 eth{n}" for n in (0, 1)]
    machine.write("/proc/net/if_inet6", "\n".join(lines))


def first_version_groups(machine: WellMachine) -> None:
    mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
    mounts += "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0"
    text = (machine.root / "proc/self/mounts").read_text()
    machine.write("/proc/self/mounts", f"{text}\n{mounts}")
    machine.write("/proc/self/cgroup", "4:memory:/a\n1:cpu:/\n0::/")
    machine.write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", V1_UNLIMITED)
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    machine.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")


def no_configuration(machine: WellMachine) -> None:
    machine.config = {}
    machine.options = {}


def untold_nodes(machine: WellMachine) -> None:
    """As of a virtual machine with several root complexes."""
    machine.link(0, "/sys/devices/pci0001:00/0001:00:00.0")
    machine.write("/sys/devices/pci0001:00/0001:00:00.0/numa_node", "-1")


def dma_buf(machine: WellMachine) -> None:
    open_driver(machine)
    machine.write("/proc/sys/kernel/osrelease", "6.1.0-31-amd64")


RIGHT = {
    "a NIC of a container": virtual_nic,
    "a pod does not see how its host reserves pages": pod,
    "a node that runs has its pages already": node_runs,
    "two NICs in one network of IPv6": one_v6_network,
    "bbr by default, and cubic to be chosen": sysctl("net.ipv4.tcp_congestion_control", "bbr"),
    "swap, and an arena that never goes there": files(
        meminfo="MemAvailable: 9 kB\nSwapTotal: 8388608 kB\nSwapFree: 8388608 kB"
    ),
    "no transparent pages, and reserved ones": files(thp="always madvise [never]"),
    "control groups of version 1 without limits": first_version_groups,
    "a NIC of unknown speed": files(speed="-1", mtu="1500"),
    "no io_uring, and no disks": both(config(nvme=Nvme()), probe(uring="function not implemented")),
    "a tenant with a secret of its own": tenants(TENANT.format(rights="write")),
    "a disk of a virtual machine": both(
        mounts("/dev/nvme0n1 /mnt/nvme0 xfs", "/dev/vda /mnt/nvme0 xfs"),
        lambda machine: machine.write("/sys/block/vda/queue/rotational", "1"),
    ),
    "every address": config(listen=("0.0.0.0:7527",)),
    "a kernel without these sysctls": lambda machine: [
        (machine.root / f"proc/sys/{name}").unlink()
        for name in ("vm/memfd_noexec", "kernel/io_uring_disabled", "kernel/numa_balancing")
    ],
    "nobody knows whether the clock is kept": probe(is_synchronised=None),
    "no configuration": no_configuration,
    "nobody knows which processor a NIC is at": untold_nodes,
    "a GPU's memory by dma-buf": dma_buf,
    "a GPU's memory by nvidia_peermem": both(gpu_driver, peer_module),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_no_finding(machine, name):
    RIGHT[name](machine)

    findings = examine(machine.subject())

    assert [each for each in findings if each.severity is not Severity.OK] == []


def test_an_empty_machine_is_looked_at_without_a_fault(tmp_path, machine):
    machine.root = tmp_path / "empty"
    machine.config = {}
    machine.options = {}

    assert examine(machine.subject())
