"""Plants: for every check something that it shall find, on a machine that is well otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from doctor.well_machine import GIB, HOME, PAGES, SYS_GPU, SYS_NIC, WellMachine

from gd2fs.doctor import Severity
from gd2fs.doctor.probes import Room
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.nvme import Nvme, NvmePlace
from gd2fs.ucx import Ucx

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB"
THP = "/sys/kernel/mm/transparent_hugepage"
NET = "/sys/class/net/eth0"
GROUP = "/sys/fs/cgroup/gd2fs/node"
LIMITS = "/proc/self/limits"


@dataclass(frozen=True)
class Plant:
    """``check``: that shall find it; ``also``: others that may have something to say."""

    check: str
    severity: Severity
    do: Callable[[WellMachine], object]
    also: tuple[str, ...] = ()
    words: str = ""

    def __str__(self) -> str:
        return f"{self.check}-{self.words or self.severity.word}".replace(" ", "_")


NOTE, WARNING, ERROR = Severity.NOTE, Severity.WARNING, Severity.ERROR


def files(**texts: str) -> Callable[[WellMachine], None]:
    """Write files whose names stand in `where` by their keys."""

    def plant(machine: WellMachine) -> None:
        for key, text in texts.items():
            machine.write(WHERE[key], text)

    return plant


def sysctl(name: str, text: str) -> Callable[[WellMachine], None]:
    return lambda machine: machine.write("/proc/sys/" + name.replace(".", "/"), text)


def config(**changes: object) -> Callable[[WellMachine], None]:
    return lambda machine: machine.config.update(changes)


def both(*plants: Callable[[WellMachine], object]) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        for each in plants:
            each(machine)

    return plant


def limit(name: str, value: str) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        lines = (machine.root / LIMITS.lstrip("/")).read_text().splitlines()
        kept = [line for line in lines if not line.startswith(name)]
        machine.write(LIMITS, "\n".join([*kept, f"{name:<26}{value:<21}{value:<21}"]))

    return plant


def mounts(old: str, new: str) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        text = (machine.root / "proc/self/mounts").read_text()
        assert old in text
        machine.write("/proc/self/mounts", text.replace(old, new))

    return plant


def room(end: str, size: int, free: int) -> Callable[[WellMachine], None]:
    return lambda machine: machine.probes.rooms.update({end: Room(size, free)})


def probe(**values: object) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        for name, value in values.items():
            setattr(machine.probes, name, value)

    return plant


WHERE = {
    "nr": f"{POOL}/nr_hugepages",
    "free": f"{POOL}/free_hugepages",
    "large": "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
    "node1": "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
    "node0": "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
    "node1_memory": "/sys/devices/system/node/node1/meminfo",
    "thp": f"{THP}/enabled",
    "shmem": f"{THP}/shmem_enabled",
    "meminfo": "/proc/meminfo",
    "status": "/proc/self/status",
    "written": "/etc/sysctl.d/80-gd2fs.conf",
    "memory_max": f"{GROUP}/memory.max",
    "memory_used": f"{GROUP}/memory.current",
    "huge_max": f"{GROUP}/hugetlb.2MB.max",
    "cpu_max": f"{GROUP}/cpu.max",
    "pids_max": f"{GROUP}/pids.max",
    "mtu": f"{NET}/mtu",
    "speed": f"{NET}/speed",
    "duplex": f"{NET}/duplex",
    "state": f"{NET}/operstate",
    "rx_errors": f"{NET}/statistics/rx_errors",
    "numa_of_nic": f"{SYS_NIC}/numa_node",
    "clock": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "driver": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "rotational": "/sys/block/nvme0n1/queue/rotational",
    "scheduler": "/sys/block/nvme0n1/queue/scheduler",
}
QUIET = sysctl("kernel.numa_balancing", "0")
SMALL_PAGES = both(config(arena="thp"), QUIET)
NO_PAGES = files(nr="0", free="0", written="")
SWAPPING = "MemAvailable: 134217728 kB\nSwapTotal: 8388608 kB\nSwapFree: 8388608 kB"
STRICT = "MemAvailable: 134217728 kB\nCommitLimit: 16777216 kB\nCommitted_AS: 8388608 kB"


def one_queue(machine: WellMachine) -> None:
    for queue in range(1, 8):
        (machine.root / f"sys/class/net/eth0/queues/rx-{queue}/rps_cpus").unlink()
        (machine.root / f"sys/class/net/eth0/queues/rx-{queue}").rmdir()


def two_nics(machine: WellMachine) -> None:
    machine.config["listen"] = ("10.0.0.1:7527", "10.0.1.1:7527")


def one_network(machine: WellMachine) -> None:
    route = (machine.root / "proc/net/route").read_text().replace("0001000A", "0000000A")
    machine.write("/proc/net/route", route)


def far_nic(machine: WellMachine) -> None:
    machine.link(0, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0")
    machine.write("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/numa_node", "1")
    assert (machine.root / SYS_GPU.lstrip("/")).exists()


def infiniband(machine: WellMachine) -> None:
    folder = "/sys/class/infiniband/mlx5_0/ports/1"
    machine.write(f"{folder}/state", "1: DOWN")
    machine.write(f"{folder}/rate", "400 Gb/sec (4X NDR)")
    machine.write(f"{folder}/link_layer", "InfiniBand")


def active_card(machine: WellMachine) -> None:
    infiniband(machine)
    machine.write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")


def gpu_driver(machine: WellMachine) -> None:
    active_card(machine)
    machine.write("/proc/driver/nvidia/version", "NVRM version: 570")


def peer_module(machine: WellMachine) -> None:
    machine.write("/sys/module/nvidia_peermem/initstate", "live")


def open_driver(machine: WellMachine) -> None:
    gpu_driver(machine)
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86"
    machine.write("/proc/driver/nvidia/version", text)


def token(text: str, mode: int = 0o600) -> Callable[[WellMachine], None]:
    return lambda machine: machine.write("/etc/gd2fs/token", text, mode=mode)


def no_token(machine: WellMachine) -> None:
    del machine.options["token_file"]


def no_token_file(machine: WellMachine) -> None:
    (machine.root / "etc/gd2fs/token").unlink()


def tenants(text: str, mode: int = 0o600, file_mode: int = 0o600) -> Callable[[WellMachine], None]:
    """``mode`` of the file with the secret of one of them."""

    def plant(machine: WellMachine) -> None:
        machine.write("/etc/gd2fs/tenants.toml", text, mode=file_mode)
        machine.write("/etc/gd2fs/secret-of-a", f"a.{'y' * 43}", mode=mode)
        machine.options["tenants"] = "/etc/gd2fs/tenants.toml"

    return plant


def engine(name: str, *more: str) -> Callable[[WellMachine], None]:
    return lambda machine: machine.run_engine(name, 900, *more)


def no_tls(machine: WellMachine) -> None:
    for name in ("tls_cert", "tls_key", "tls_ca"):
        del machine.options[name]


def transfer(**changes: object) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        flag = machine.vllm_transfer(**changes)
        machine.run_engine("vllm", 900, "--kv-transfer-config", flag)

    return plant


def without(engine_name: str, flag: str, *, values: int = 1) -> Callable[[WellMachine], None]:
    def plant(machine: WellMachine) -> None:
        machine.run_engine(engine_name)
        words = (machine.root / "proc/900/cmdline").read_text().split("\0")
        at = words.index(flag)
        machine.run(900, words[:at] + words[at + 1 + values :])

    return plant


def two_seeds(machine: WellMachine) -> None:
    machine.run_engine("vllm", 900, seed="7")
    machine.run_engine("vllm", 901)


def two_page_sizes(machine: WellMachine) -> None:
    machine.run_engine("sglang", 900)
    machine.run_engine("sglang", 901, "--page-size", "128")


def one_of_two_keys(machine: WellMachine) -> None:
    del machine.options["tls_key"]


NO_UCX = Unavailable("UCX cannot be loaded: libucp.so.0: no such file", hint="")
OLD_UCX = InvalidRequest("/usr/lib/libucp.so.0 is UCX 1.13.0; 1.16 or newer is needed", hint="")
NO_CARDS = Ucx("/usr/lib/libucp.so.0", "1.22.0", knows_cards=False)
THREE_TOKENS = "\n".join(f"a{number}.{'x' * 43}" for number in range(3))
TENANT = '[tokens.a]\nsecret_file = "secret-of-a"\nrights = "{rights}"\nnamespaces = ["k"]'
HASHED = f'[tokens.a]\nsecret_hash = "{"0" * 64}"\nrights = "read"\nnamespaces = ["k"]'
SMALL = 64 << 20
SHM_ARENA = both(QUIET, config(arena="file:/dev/shm/gd2fs"), room("/dev/shm", SMALL, SMALL))
PLANTS = [
    # memory
    Plant("hugepages", WARNING, files(free="100")),
    Plant("hugepages", ERROR, both(config(arena="hugetlb"), files(free="100"))),
    Plant("hugepages after a reboot", NOTE, files(written="")),
    Plant("1 GiB pages", WARNING, both(QUIET, NO_PAGES, files(large="64")), also=("hugepages",)),
    Plant("hugepages on NUMA nodes", WARNING, files(node0=f"{PAGES - 100}", node1="100")),
    Plant(
        "transparent huge pages",
        ERROR,
        both(SMALL_PAGES, files(thp="always madvise [never]")),
    ),
    Plant(
        "huge pages of shared memory",
        WARNING,
        both(config(arena="memfd"), QUIET, files(shmem="always advise [never]")),
    ),
    Plant("free memory", ERROR, both(SMALL_PAGES, files(meminfo="MemAvailable: 1048576 kB"))),
    Plant(
        "free memory",
        ERROR,
        both(SMALL_PAGES, files(memory_max=f"{100 * GIB}", memory_used=f"{60 * GIB}")),
        words="40 GiB are available",
    ),
    Plant("swap", WARNING, both(SMALL_PAGES, files(meminfo=SWAPPING))),
    Plant("overcommit", WARNING, both(sysctl("vm.overcommit_memory", "2"))),
    Plant(
        "overcommit",
        ERROR,
        both(SMALL_PAGES, sysctl("vm.overcommit_memory", "2"), files(meminfo=STRICT)),
    ),
    Plant(
        "locked memory",
        WARNING,
        both(gpu_driver, limit("Max locked memory", "65536")),
        also=("GPUDirect",),
    ),
    Plant("/dev/shm", ERROR, SHM_ARENA),
    Plant(
        "/dev/shm", WARNING, both(engine("vllm"), room("/dev/shm", SMALL, SMALL)), also=("pool",)
    ),
    Plant(
        "arena file",
        ERROR,
        both(
            config(arena="file:/dev/hugepages/a"),
            mounts("none /dev/hugepages hugetlbfs", "none /x hugetlbfs"),
        ),
    ),
    Plant("arena file", NOTE, both(QUIET, config(arena="file:/mnt/nvme0/arena"))),
    Plant("memfd", WARNING, sysctl("vm.memfd_noexec", "2")),
    # container
    Plant("memory limit", ERROR, both(SMALL_PAGES, files(memory_max=f"{16 * GIB}"))),
    Plant("memory limit", WARNING, files(memory_max=f"{400 << 20}")),
    Plant("hugepages limit", WARNING, files(huge_max=f"{GIB}")),
    Plant("processor limit", WARNING, files(cpu_max="150000 100000")),
    Plant("processors", WARNING, files(status="Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0-1")),
    Plant("process limit", WARNING, files(pids_max="100")),
    # NUMA
    Plant("memory of NUMA nodes", WARNING, files(node1_memory="Node 1 MemTotal: 1048576 kB")),
    Plant(
        "allowed NUMA nodes",
        WARNING,
        files(status="Cpus_allowed_list:\t0-31\nMems_allowed_list:\t0"),
    ),
    Plant("NUMA balancing", WARNING, config(arena="thp")),
    Plant(
        "NUMA balancing", WARNING, sysctl("vm.zone_reclaim_mode", "1"), words="zone_reclaim_mode"
    ),
    Plant(
        "NICs and NUMA nodes",
        WARNING,
        both(far_nic, files(node0=f"{PAGES}", node1="0")),
        also=("hugepages on NUMA nodes", "NICs and GPUs"),
    ),
    Plant("NICs and GPUs", WARNING, far_nic),
    # network
    Plant(
        "addresses", ERROR, config(listen=("10.0.0.99:7527",)), also=("names in the certificate",)
    ),
    Plant(
        "addresses",
        WARNING,
        config(listen=("10.0.0.1:7527", "10.0.0.99:7527")),
        also=("names in the certificate",),
    ),
    Plant("link", ERROR, files(state="down")),
    Plant("MTU", WARNING, files(mtu="1500")),
    Plant("MTU", WARNING, both(files(mtu="1280", speed="-1")), words="1280"),
    Plant(
        "MTU",
        WARNING,
        both(two_nics, files(mtu="4200", speed="10000")),
        words="unequal",
        also=("NIC speed",),
    ),
    Plant("NIC speed", WARNING, files(speed="1000")),
    Plant("NIC speed", NOTE, both(two_nics, files(speed="50000"))),
    Plant("duplex", ERROR, files(duplex="half")),
    Plant("NIC queues", WARNING, one_queue),
    Plant("NIC errors", WARNING, files(rx_errors="5000")),
    Plant("several NICs in one network", WARNING, one_network),
    Plant(
        "reverse path filter",
        WARNING,
        both(one_network, sysctl("net.ipv4.conf.all.rp_filter", "1")),
        also=("several NICs in one network",),
    ),
    # sockets
    Plant("congestion control", ERROR, lambda machine: machine.options.update(congestion="dctcp")),
    Plant(
        "congestion control",
        WARNING,
        lambda machine: machine.variables.update(GD2FS_CONGESTION="bbr"),
    ),
    Plant(
        "congestion control",
        WARNING,
        both(
            probe(user_number=1000),
            sysctl("net.ipv4.tcp_congestion_control", "bbr"),
            sysctl("net.ipv4.tcp_allowed_congestion_control", "bbr"),
        ),
        words="neither cubic nor reno",
    ),
    Plant("socket buffers", WARNING, sysctl("net.core.rmem_max", "212992")),
    Plant("socket buffers", WARNING, config(socket_buffer_bytes=16 << 20), words="16 MiB"),
    Plant("memory of TCP", WARNING, sysctl("net.ipv4.tcp_mem", "1000 2000 3000")),
    Plant("receive and send windows", WARNING, sysctl("net.ipv4.tcp_rmem", "4096 65536 65536")),
    Plant("backlog", WARNING, sysctl("net.core.somaxconn", "16")),
    Plant("ports", WARNING, sysctl("net.ipv4.ip_local_port_range", "1024 65535")),
    Plant(
        "ports", WARNING, sysctl("net.ipv4.ip_local_port_range", "60000 60999"), words="1000 ports"
    ),
    # RDMA
    Plant("RDMA devices", NOTE, infiniband),
    Plant("GPUDirect", NOTE, gpu_driver),
    Plant("GPUDirect", NOTE, both(open_driver, sysctl("kernel.osrelease", "5.10.0-35-amd64"))),
    Plant("UCX", WARNING, both(active_card, probe(found_ucx=NO_UCX)), words="cannot be loaded"),
    Plant("UCX", WARNING, both(active_card, probe(found_ucx=OLD_UCX)), words="is UCX 1.13.0"),
    Plant("UCX", WARNING, both(active_card, probe(found_ucx=NO_CARDS)), words="without support"),
    Plant(
        "UCX",
        ERROR,
        both(lambda machine: machine.options.update(rdma="on"), probe(found_ucx=NO_UCX)),
        words="cannot be loaded",
    ),
    # kernel
    Plant("kernel", ERROR, sysctl("kernel.osrelease", "4.18.0-553.el8")),
    Plant("kernel", WARNING, sysctl("kernel.osrelease", "5.4.0-150-generic")),
    Plant("io_uring", WARNING, sysctl("kernel.io_uring_disabled", "2")),
    Plant("io_uring", WARNING, probe(uring="operation not permitted"), words="not permitted"),
    Plant("pipes", WARNING, sysctl("fs.pipe-max-size", "65536")),
    Plant("pipes", WARNING, sysctl("fs.pipe-user-pages-soft", "1024"), words="user-pages"),
    Plant("open files", WARNING, limit("Max open files", "1024")),
    Plant("clock source", WARNING, files(clock="hpet")),
    Plant("clock", NOTE, probe(is_synchronised=False)),
    Plant("processor frequency", WARNING, files(governor="powersave", driver="acpi-cpufreq")),
    # disk
    Plant("file system", ERROR, mounts("/mnt/nvme0 xfs", "/mnt/nvme0 nfs4")),
    Plant("file system", ERROR, mounts("/mnt/nvme0 xfs", "/mnt/nvme0 tmpfs"), words="memory"),
    Plant(
        "file system", WARNING, mounts("/dev/nvme0n1 /mnt/nvme0 xfs", "overlay /mnt/nvme0 overlay")
    ),
    Plant("file system", NOTE, mounts("/mnt/nvme0 xfs", "/mnt/nvme0 zfs")),
    Plant("direct I/O", ERROR, probe(direct="its file system has no direct I/O")),
    Plant("direct I/O", ERROR, probe(direct="permission denied"), words="permission denied"),
    Plant(
        "room on disk",
        ERROR,
        both(
            config(nvme=Nvme((NvmePlace("/mnt/nvme0/gd2fs", 900 * GIB),))),
            room("/mnt/nvme0/gd2fs", 1000 * GIB, 100 * GIB),
        ),
    ),
    Plant("room on disk", WARNING, room("/mnt/nvme0/gd2fs", 1000 * GIB, GIB)),
    Plant(
        "devices",
        WARNING,
        config(nvme=Nvme((NvmePlace("/mnt/nvme0/a"), NvmePlace("/mnt/nvme0/b")))),
    ),
    Plant("kind of device", WARNING, files(rotational="1")),
    Plant("kind of device", NOTE, files(scheduler="none mq-deadline [bfq]")),
    Plant("state folder", WARNING, config(state_dir="/dev/shm/state")),
    Plant(
        "state folder",
        ERROR,
        lambda machine: (machine.root / "var/lib/gd2fs").chmod(0o777),
    ),
    # security
    Plant("token", ERROR, no_token),
    Plant("token", WARNING, both(no_token, lambda machine: machine.options.update(insecure=True))),
    Plant("token file", ERROR, token(f"a.{'x' * 43}", 0o644), words="mode 0644"),
    Plant("token file", WARNING, token(f"a.{'x' * 43}", 0o660)),
    Plant("token file", ERROR, token(f"a.{'x' * 8}"), words="32 to 256 letters"),
    Plant("token file", ERROR, token("secret"), words="NAME.SECRET"),
    Plant("token file", ERROR, token(THREE_TOKENS), words="3 tokens"),
    Plant("token file", ERROR, no_token_file, words="not there"),
    Plant("tenants", ERROR, tenants('[tokens.a]\nrights = "all"'), words="`rights`"),
    Plant("tenants", ERROR, tenants("not toml"), words="TOML"),
    Plant("tenants", ERROR, tenants(TENANT.format(rights="read"), 0o644), words="mode 0644"),
    Plant("tenants", ERROR, tenants(HASHED, file_mode=0o604), words="tenants.toml has mode 0604"),
    Plant("TLS", NOTE, no_tls),
    Plant("TLS", ERROR, one_of_two_keys),
    # engine
    Plant("engine", NOTE, lambda machine: setattr(machine, "engine", "vllm"), words="no vllm runs"),
    Plant("engine", ERROR, both(engine("vllm"), lambda m: m.probes.packages.update(vllm="0.12.0"))),
    Plant(
        "engine",
        NOTE,
        both(engine("sglang"), lambda m: m.probes.packages.clear()),
        words="not in this",
    ),
    Plant("HiCache", ERROR, engine("sglang", "--hicache-storage-backend", "file")),
    Plant(
        "HiCache",
        ERROR,
        without("sglang", "--enable-hierarchical-cache", values=0),
        words="no HiCache",
    ),
    Plant(
        "HiCache",
        ERROR,
        engine(
            "sglang",
            "--hicache-storage-backend-extra-config",
            '{"module_path": "x", "interface_v1": 1}',
        ),
        words="not GD2FS",
    ),
    Plant("flags of SGLang", WARNING, engine("sglang", "--hicache-mem-layout", "layer_first")),
    Plant(
        "flags of SGLang",
        WARNING,
        engine("sglang", "--hicache-write-policy", "write_back"),
        words="late",
    ),
    Plant(
        "flags of SGLang",
        WARNING,
        engine("sglang", "--hicache-storage-prefetch-policy", "timeout"),
        words="on its way",
    ),
    Plant("flags of SGLang", WARNING, without("sglang", "--page-size"), words="page size"),
    Plant("flags of SGLang", WARNING, without("sglang", "--hicache-ratio"), words="host memory"),
    Plant("flags of SGLang", NOTE, without("sglang", "--enable-metrics", values=0)),
    Plant(
        "compiled files",
        ERROR,
        both(
            engine("sglang"),
            lambda machine: machine.write(f"{HOME}/.cache/sglang/inductor/ab/kernel.so", ""),
        ),
        words="kernel.so",
    ),
    Plant("offloading", ERROR, transfer(kv_connector="LMCacheConnectorV1")),
    Plant("offloading", ERROR, transfer(extra_secondary_tiers=[]), words="no tier"),
    Plant(
        "offloading", ERROR, transfer(extra_spec_name="CPUOffloadingSpec"), words="without tiers"
    ),
    Plant("flags of vLLM", WARNING, engine("vllm", "--prefix-caching-hash-algo", "sha256")),
    Plant("flags of vLLM", WARNING, without("vllm", "--shutdown-timeout"), words="last pages"),
    Plant(
        "flags of vLLM", WARNING, transfer(kv_load_failure_policy="fail"), words="ends its request"
    ),
    Plant("flags of vLLM", NOTE, transfer(extra_offload_prompt_only=True)),
    Plant("flags of vLLM", ERROR, engine("vllm", "--no-enable-prefix-caching")),
    Plant("seed of hashes", ERROR, two_seeds),
    Plant("pool", ERROR, transfer(extra_cpu_bytes_to_use=9000 * GIB)),
    Plant(
        "pool",
        WARNING,
        both(
            lambda machine: machine.write("/dev/shm/vllm_offload_1.mmap", ""),
            lambda machine: setattr(machine, "engine", "vllm"),
        ),
        also=("engine",),
    ),
    Plant("instances alike", WARNING, two_page_sizes),
]
ELSEWHERE = {  # planted in test_plants_of_certificates, test_doctor_cluster and test_real_plants
    *("file", "users", "TLS key", "certificate", "names in the certificate"),
    *("nodes", "versions", "list of nodes", "epoch", "clocks", "replicas", "memory of nodes"),
    *("arenas", "MTU of nodes", "rules of nodes", "kernels"),
}
