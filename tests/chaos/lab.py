"""Lab: the hosts and processes of one run: nodes, clients, a proxy, a control plane."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from membership.kubernetes_api import NAMESPACE

from chaos.history import ETCD
from chaos.network import Network, OneHost
from chaos.process import DidNotStart, Process
from chaos.schedule import CLIENTS, Schedule
from gd2fs.ucx import libraries_in_wheels

PORT = 7527
ADMIN_PORT = 9527  # asked from inside the node's namespace, so no fault of the network reaches it
NODE_HOST, CLIENT_HOST, PROXY_HOST, ETCD_HOST = 10, 50, 100, 200
ETCD_PORT, ETCD_PEER_PORT, API_PORT = 2379, 2380, 6443
DISK_BYTES = "512MiB"
KEPT_PARENT = "/dev/shm"
READY_S = 30.0
POLL_S = 0.02
PYTHON = (sys.executable, "-m")


def why_not_under(provider: str, *, is_rdma: bool = False) -> str:
    """Why nodes cannot run so here; empty when they can."""
    if is_rdma and not _libucp():
        return "needs UCX: `make test` installs the wheel libucx-cu12"
    if provider == "etcd" and not shutil.which("etcd"):
        return "needs `etcd`: apt-get install etcd-server"
    return ""


class Lab:
    """All that a schedule needs, running. A context manager that takes all of it away.

    Args:
        schedule: What is to be done here.
        folder: For logs and plans.
        python: The command that runs a module; its name and arguments follow.
        environment: Of nodes and clients, beyond this process's.
    """

    def __init__(
        self,
        schedule: Schedule,
        folder: Path,
        *,
        python: Sequence[str] = PYTHON,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.schedule = schedule
        self.world = schedule.world
        self.folder = folder
        self.network = OneHost() if self.world.is_one_host else Network()
        self.nodes: dict[str, Process] = {}
        self.clients: dict[str, Process] = {}
        self.proxy: Process | None = None
        self.etcd: Process | None = None
        self._python = list(python)
        self._environment = environment or {}
        self._stack = ExitStack()
        self._kept: Path | None = None

    def __enter__(self) -> Lab:
        self._stack.enter_context(self.network)
        if self.world.is_kept:
            made = tempfile.TemporaryDirectory(prefix="gd2fs-chaos-", dir=KEPT_PARENT)
            self._kept = Path(self._stack.enter_context(made))
        try:
            self._add_hosts()
            self._start_all()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in (*self.clients.values(), *self.nodes.values(), self.proxy, self.etcd):
            if child is not None:
                child.kill()
        self._stack.close()

    # ---- what is where -----------------------------------------------------------------------

    def node_names(self) -> list[str]:
        return [f"n{index}" for index in range(self.world.nodes)]

    def process(self, name: str) -> Process:
        """The process of that name; of nodes and etcd, the latest."""
        process = self.etcd if name == ETCD else (self.nodes | self.clients).get(name)
        assert process is not None, name
        return process

    def reached_at(self, name: str) -> str:
        """Where others reach a node: at the proxy in front of it, if it has one."""
        is_proxied = self.world.proxied is not None and name == f"n{self.world.proxied}"
        return f"{self.network.address('p' if is_proxied else name)}:{PORT}"

    def client_log(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def host_of(self, name: str) -> str:
        """The namespace that a process is in."""
        return "n0" if name == "c0" and self.world.has_local_client else name

    # ---- nodes -------------------------------------------------------------------------------

    def start_node(self, name: str) -> Process:
        """Start a node, empty or with what is kept; the caller waits until it is ready."""
        command = [*self._python, "gd2fs", "serve", *self._node_options(name)]
        self.nodes[name] = self._start(name, command)
        return self.nodes[name]

    def start_etcd(self) -> Process:
        """Start the control plane, with the data it had."""
        command = self._api_command() if self._is_kubernetes else self._etcd_command()
        self.etcd = self._start(ETCD, command)
        return self.etcd

    @property
    def _is_kubernetes(self) -> bool:
        return self.world.provider == "kubernetes"

    def _api_command(self) -> list[str]:
        at = (self.network.address(ETCD), str(API_PORT))
        kept = (str(self.folder / "account"), str(self.folder / "api.json"))
        return [sys.executable, "-m", "membership.kubernetes_api", *at, *kept]

    def _etcd_command(self) -> list[str]:
        here = f"http://{self.network.address(ETCD)}"
        peer = f"{here}:{ETCD_PEER_PORT}"
        command = ["etcd", "--name", ETCD, "--data-dir", str(self.folder / "etcd")]
        command += ["--listen-client-urls", f"{here}:{ETCD_PORT}"]
        command += ["--advertise-client-urls", f"{here}:{ETCD_PORT}"]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"{ETCD}={peer}", "--log-level", "error"]
        return [*command, "--heartbeat-interval", "50", "--election-timeout", "500"]

    def is_ready(self, name: str) -> bool:
        """Whether a process that was started serves now."""
        return self._has_leader() if name == ETCD else self.nodes[name].is_ready()

    def _has_leader(self) -> bool:
        if self._is_kubernetes:
            assert self.etcd is not None
            return self.etcd.is_ready()
        url = f"http://{self.network.address(ETCD)}:{ETCD_PORT}/health"
        try:
            return self.network.inside(ETCD, lambda: '"true"' in _fetch(url))
        except OSError:
            return False

    def metrics_of(self, name: str) -> dict[str, float]:
        """The node's own counts, by `NAME{LABELS}`."""
        text = self.network.inside(name, lambda: _fetch(f"http://{self._admin(name)}/metrics"))
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def _node_options(self, name: str) -> list[str]:
        return [
            *("--cluster", "chaos", "--name", name, *self._membership_options()),
            *("--listen", f"tcp://{self.network.address(name)}:{PORT}"),
            *("--advertise", f"tcp://{self.reached_at(name)}"),
            *("--memory", self.world.memory, "--arena", self._arena(name), "--threads", "1"),
            *("--zero-copy", self.world.zero_copy, "--admin", self._admin(name)),
            "--insecure",
            *self._disk_options(name),
            *self._rdma_options(),
        ]

    def _admin(self, name: str) -> str:
        return f"{self.network.address(name)}:{ADMIN_PORT}"

    def _rdma_options(self) -> list[str]:
        if not self.world.rdma:
            return []
        return ["--rdma", "on", "--ucx", _libucp(), "--ucx-tls", self.world.rdma]

    def _arena(self, name: str) -> str:
        return f"file:{self._kept / name}" if self._kept else "memfd"

    def _disk_options(self, name: str) -> list[str]:
        if not self.world.has_disk:
            return []
        write, keep = self.world.nvme
        place = f"{self.folder / 'disks' / name}:{DISK_BYTES}"
        return ["--nvme", place, "--nvme-write", write, "--nvme-keep", keep]

    def _membership_options(self) -> list[str]:
        replicas = ["--replicas", str(self.world.replicas)] if self.world.replicas > 1 else []
        if self.world.provider == "static":
            peers = ",".join(f"{each}={self.reached_at(each)}" for each in self.node_names())
            return ["--peers", peers, *replicas]
        timing = ["--lease", str(self.world.lease_s), "--ramp", "0", *replicas]
        here = f"http://{self.network.address(ETCD)}"
        if self._is_kubernetes:
            account = str(self.folder / "account")
            place = ["--kubernetes", NAMESPACE, "--kubernetes-account", account]
            return [*place, "--kubernetes-api", f"{here}:{API_PORT}", *timing]
        return ["--etcd", f"{here}:{ETCD_PORT}", *timing]

    # ---- all of it ---------------------------------------------------------------------------

    def _add_hosts(self) -> None:
        for index, name in enumerate(self.node_names()):
            self.network.add(name, NODE_HOST + index)
        for index in range(CLIENTS):
            self.network.add(f"c{index}", CLIENT_HOST + index)
        if self.world.proxied is not None:
            self.network.add("p", PROXY_HOST)
        if self.world.provider != "static":
            self.network.add(ETCD, ETCD_HOST)

    def _start_all(self) -> None:
        if self.world.provider != "static":
            self.start_etcd()
            self._wait_for(ETCD)
        if self.world.proxied is not None:
            node = self.network.address(f"n{self.world.proxied}")
            ends = (f"{self.network.address('p')}:{PORT}", f"{node}:{PORT}")
            command = [sys.executable, "-m", "chaos.proxy", *ends, str(self.schedule.seed)]
            self.proxy = self._start("p", command)
            self.proxy.wait_ready()
        for name in self.node_names():
            self.start_node(name)
        for name in self.node_names():
            self._wait_for(name)
        self._wait_for_one_map()
        for index in range(CLIENTS):
            self._start_client(index)
        for client in self.clients.values():
            client.wait_ready()

    def _wait_for(self, name: str) -> None:
        end = time.monotonic() + READY_S
        while not self.is_ready(name):
            if time.monotonic() > end:
                raise DidNotStart(f"{name} was not ready within {READY_S} s")
            time.sleep(POLL_S)

    def _wait_for_one_map(self) -> None:
        """Until all nodes know the map in which all of them are."""
        end = time.monotonic() + READY_S
        while len({self.metrics_of(name)["gd2fs_map_epoch"] for name in self.node_names()}) > 1:
            if time.monotonic() > end:
                raise DidNotStart(f"the nodes have not one map within {READY_S} s")
            time.sleep(POLL_S)

    def _start_client(self, index: int) -> None:
        name = f"c{index}"
        self.client_log(name).unlink(missing_ok=True)
        is_local = self.host_of(name) != name
        settings = {
            "cp": [self.reached_at(node) for node in self.node_names()],
            "cluster": "chaos",
            "io_threads": 1,
            "transport": "auto" if is_local else "tcp",
        }
        if self.world.rdma and not is_local:
            settings |= {"transport": "rdma", "ucx": _libucp(), "ucx_tls": self.world.rdma}
        steps = [asdict(step) for step in self.schedule.steps_of(index)]
        plan = self.folder / f"{name}.json"
        plan.write_text(json.dumps({"client": settings, "steps": steps}), encoding="utf-8")
        command = [*self._python, "chaos.worker", str(plan), str(self.client_log(name))]
        self.clients[name] = self._start(name, command)

    def _start(self, name: str, command: list[str]) -> Process:
        enter = self.network.enter(self.host_of(name))
        return Process(name, command, self.folder / f"{name}.log", enter, self._environment)


def _libucp() -> str:
    """That of the wheel; empty without one."""
    return next(map(str, libraries_in_wheels(("libucx",))), "")


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()
