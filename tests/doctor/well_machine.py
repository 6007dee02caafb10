"""A machine that is set up well, as files below a folder, for tests to break in one place each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gd2fs.config import NodeConfig
from gd2fs.doctor import Machine, Subject, Wanted, wanted_of
from gd2fs.doctor.probes import Room
from gd2fs.engines.sglang.launch import SglangServer
from gd2fs.engines.vllm.launch import VllmServer
from gd2fs.errors import GD2FSError
from gd2fs.nvme import Nvme, NvmePlace
from gd2fs.ucx import Ucx

HOME = "/home/engine"  # of whoever runs an engine there
GIB = 1 << 30
PAGES = 40_000  # of 2 MiB: 78 GiB
HOST = "10.0.0.1"
SYS_NIC = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
SYS_GPU = "/sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0"
POOL = "hugepages/hugepages-2048kB"

FILES = {
    "/proc/meminfo": "MemTotal: 268435456 kB\nMemAvailable: 134217728 kB\nSwapTotal: 0 kB\n"
    "SwapFree: 0 kB\nCommitLimit: 134217728 kB\nCommitted_AS: 1048576 kB",
    "/proc/cmdline": "BOOT_IMAGE=/vmlinuz ro quiet",
    "/proc/self/limits": "Limit                     Soft Limit           Hard Limit\n"
    "Max processes             96365                96365                processes\n"
    "Max open files            65536                65536                files\n"
    "Max locked memory         unlimited            unlimited            bytes",
    "/proc/self/status": "Name:\tgd2fs\nCpus_allowed_list:\t0-31\nMems_allowed_list:\t0-1",
    "/proc/self/cgroup": "0::/gd2fs/node",
    "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
    "none /dev/hugepages hugetlbfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    "/dev/nvme0n1 /mnt/nvme0 xfs rw 0 0\n/dev/nvme1n1 /mnt/nvme1 ext4 rw 0 0",
    "/proc/net/route": "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n"
    "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\n"
    "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n"
    "eth1\t0001000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0",
    "/proc/net/fib_trie": "Local:\n  |-- 10.0.0.1\n     /32 host LOCAL\n  |-- 10.0.1.1\n"
    "     /32 host LOCAL\n  |-- 127.0.0.1\n     /32 host LOCAL",
    "/proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80 lo\n"
    "fe8000000000000000fc00fffe000001 02 40 20 80 eth0",
    "/proc/sys/kernel/osrelease": "6.1.0-31-amd64",
    "/proc/sys/kernel/io_uring_disabled": "0",
    "/proc/sys/kernel/numa_balancing": "1",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/proc/sys/vm/overcommit_memory": "0",
    "/proc/sys/vm/memfd_noexec": "0",
    "/proc/sys/fs/pipe-max-size": "1048576",
    "/proc/sys/fs/pipe-user-pages-soft": "16384",
    "/proc/sys/net/core/rmem_max": "4194304",
    "/proc/sys/net/core/wmem_max": "4194304",
    "/proc/sys/net/core/somaxconn": "4096",
    "/proc/sys/net/ipv4/tcp_rmem": "4096 131072 6291456",
    "/proc/sys/net/ipv4/tcp_wmem": "4096 16384 4194304",
    "/proc/sys/net/ipv4/tcp_mem": "762183 1016245 1524366",
    "/proc/sys/net/ipv4/ip_local_port_range": "32768 60999",
    "/proc/sys/net/ipv4/ip_local_reserved_ports": "",
    "/proc/sys/net/ipv4/tcp_congestion_control": "cubic",
    "/proc/sys/net/ipv4/tcp_available_congestion_control": "reno cubic bbr",
    "/proc/sys/net/ipv4/tcp_allowed_congestion_control": "reno cubic",
    "/proc/sys/net/ipv4/conf/all/arp_ignore": "0",
    "/proc/sys/net/ipv4/conf/all/arp_announce": "0",
    "/proc/sys/net/ipv4/conf/all/rp_filter": "0",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": f"{PAGES}",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": f"{PAGES}",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages": "0",
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled": "always [advise] never",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate",
    "/sys/fs/cgroup/gd2fs/node/memory.max": "max",
    "/sys/fs/cgroup/gd2fs/memory.max": f"{200 * GIB}",
    "/sys/fs/cgroup/gd2fs/node/cpu.max": "max 100000",
    "/sys/fs/cgroup/gd2fs/node/pids.max": "4096",
    "/sys/fs/cgroup/gd2fs/node/hugetlb.2MB.max": "max",
    "/sys/block/nvme0n1/queue/rotational": "0",
    "/sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline kyber",
    "/sys/block/nvme1n1/queue/rotational": "0",
    "/sys/block/nvme1n1/queue/scheduler": "[none] mq-deadline kyber",
    "/etc/sysctl.d/80-gd2fs.conf": f"vm.nr_hugepages={PAGES}",
    f"{SYS_GPU}/class": "0x030200",
    f"{SYS_GPU}/vendor": "0x10de",
    f"{SYS_GPU}/numa_node": "0",
}

SGLANG = SglangServer("/models/m", 30000, store={"cp": HOST, "cluster": "c"})
VLLM = VllmServer("/models/m", 8000, store={"cp": HOST, "cluster": "c"}, prompts_only=False)


class PlantedProbes:
    """What no file tells, as the test says it."""

    def __init__(self) -> None:
        self.uring = ""
        self.direct = ""
        self.rooms: dict[str, Room] = {}
        self.is_synchronised: bool | None = True
        self.packages = {"sglang": "0.5.23", "vllm": "0.32.0"}
        self.user_number = 0
        self.found_ucx: Ucx | GD2FSError = Ucx("/usr/lib/libucp.so.0", "1.18.1", True)

    def io_uring_fault(self) -> str:
        return self.uring

    def direct_fault(self, folder: str) -> str:
        return self.direct

    def room(self, path: str) -> Room | None:
        found = [room for end, room in self.rooms.items() if path.endswith(end)]
        return found[0] if found else Room(4000 * GIB, 3000 * GIB)

    def is_clock_synchronised(self) -> bool | None:
        return self.is_synchronised

    def ucx(self, setting: str, cards: Path) -> Ucx:
        if isinstance(self.found_ucx, GD2FSError):
            raise self.found_ucx
        return self.found_ucx

    def package(self, name: str) -> str:
        return self.packages.get(name, "")

    def user(self) -> int:
        return self.user_number


@dataclass
class WellMachine:
    """All is well until a test writes something else.

    ``options`` and ``variables``: as of the configuration file, and of the environment.
    """

    root: Path
    probes: PlantedProbes = field(default_factory=PlantedProbes)
    options: dict[str, object] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=lambda: {"HOME": HOME})
    config: dict[str, object] = field(default_factory=dict)
    engine: str = ""
    cluster: object = None

    def __post_init__(self) -> None:
        for path, text in FILES.items():
            self.write(path, text)
        for number in (0, 1):
            folder = f"/sys/devices/system/node/node{number}"
            self.write(f"{folder}/{POOL}/nr_hugepages", f"{PAGES // 2}")
            self.write(f"{folder}/meminfo", f"Node {number} MemTotal: 134217728 kB")
            self.link(number)
        self.symlink("/sys/bus/pci/devices/0000:02:00.0", SYS_GPU)
        for folder in ("/mnt/nvme0/gd2fs", "/mnt/nvme1/gd2fs", "/dev/shm", "/var/lib/gd2fs"):
            (self.root / folder.lstrip("/")).mkdir(parents=True)
        self.write("/etc/gd2fs/token", f"cluster.{'x' * 43}\n", mode=0o600)
        self.options["token_file"] = "/etc/gd2fs/token"
        self.config = {
            "cluster": "c",
            "insecure": True,  # whether it has a token is found by a check
            "listen": (f"{HOST}:7527",),
            "memory_bytes": 64 * GIB,
            "threads": 4,
            "nvme": Nvme((NvmePlace("/mnt/nvme0/gd2fs"), NvmePlace("/mnt/nvme1/gd2fs"))),
            "state_dir": "/var/lib/gd2fs",
        }

    def link(self, number: int, device: str = "") -> None:
        """A NIC of 100 Gbit/s, `eth0` or `eth1`."""
        device = device or SYS_NIC.replace("01:00.0", f"01:00.{number}")
        folder = f"/sys/class/net/eth{number}"
        files = {"mtu": "9000", "speed": "100000", "duplex": "full", "operstate": "up"}
        files |= {"flags": "0x1003", "statistics/rx_packets": "1000000"}
        for name, text in files.items():
            self.write(f"{folder}/{name}", text)
        for queue in range(8):
            self.write(f"{folder}/queues/rx-{queue}/rps_cpus", "0")
        self.write(f"{device}/numa_node", "0")
        self.write(f"{device}/class", "0x020000")
        self.symlink(f"{folder}/device", device)
        self.symlink(f"/sys/bus/pci/devices/{device.rsplit('/', 1)[1]}", device)

    def write(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Put a file there."""
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(mode)

    def symlink(self, path: str, target: str) -> None:
        """Put a link there, within the root."""
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.unlink(missing_ok=True)
        there.symlink_to(self.root / target.lstrip("/"))

    def run(self, pid: int, words: list[str], variables: Mapping[str, str] | None = None) -> None:
        """A process that runs there."""
        self.write(f"/proc/{pid}/cmdline", "\0".join(words))
        pairs = [f"{name}={value}" for name, value in (variables or {"HOME": HOME}).items()]
        self.write(f"/proc/{pid}/environ", "\0".join(pairs))

    def run_engine(self, engine: str, pid: int = 900, *more: str, seed: str = "") -> None:
        """A server that was started as the guide says, with ``more`` flags that win."""
        self.engine = engine
        command = (SGLANG if engine == "sglang" else VLLM).command("python")
        variables = {"HOME": HOME} | ({"PYTHONHASHSEED": seed} if seed else {})
        self.run(pid, [*command, *more], variables)

    def vllm_transfer(self, **changes: object) -> str:
        """The transfer config of the guide with some changes; those of `extra_…` go into it."""
        told = json.loads(VLLM.transfer_config())
        for name, value in changes.items():
            where = told["kv_connector_extra_config"] if name.startswith("extra_") else told
            where[name.removeprefix("extra_")] = value
        return json.dumps(told)

    def subject(self) -> Subject:
        """Whom the doctor is to look at."""
        machine = Machine(self.root, environment=self.variables, probes=self.probes)
        wanted = wanted_of(NodeConfig(**self.config), self.options) if self.config else Wanted()
        return Subject(machine, wanted, self.cluster, self.engine)
