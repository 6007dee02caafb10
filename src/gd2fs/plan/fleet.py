"""Fleet: what machines there are to be, and how many of them the demand takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gd2fs.errors import InvalidRequest
from gd2fs.plan.demand import Demand
from gd2fs.plan.geometry import Geometry

GIGABIT = 1e9 / 8  # bytes a second
MEMORY_SHARE = 0.9  # of an arena, that is full of what can be found
DISK_SHARE = 0.75  # of a place on disk; the rest is room for its cleaner to write in
LINK_SHARE = 0.8  # of a NIC's rate, that payload reaches
DAY_S = 86_400
NODES_MAX = 1024
REPLICAS_MAX = 8
PAGE_BYTES = 2 << 20  # of a huge page


@dataclass(frozen=True, slots=True)
class Machines:
    """What one machine has.

    Attributes:
        memory_bytes: Arena of a node.
        nvme_bytes: Of a node's disks; 0: none.
        nic_gbit: Of a node, all its NICs together.
        replicas: Copies of everything, each on another node.
        engines: Instances.
        engine_nic_gbit: Of one instance.
        prefill_tokens_per_s: That one instance computes.
    """

    memory_bytes: int = 64 << 30
    nvme_bytes: int = 0
    nic_gbit: float = 100.0
    replicas: int = 1
    engines: int = 4
    engine_nic_gbit: float = 100.0
    prefill_tokens_per_s: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "nic_gbit", "engine_nic_gbit", "prefill_tokens_per_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidRequest(f"`{name}` is {value:g}", hint="give more than 0")
        if self.nvme_bytes and self.nvme_bytes < self.memory_bytes:
            raise InvalidRequest(
                "a node's disks are smaller than its memory",
                hint="what is in memory is on disk too: give at least as much, or none",
            )
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise InvalidRequest(f"{self.replicas} replicas", hint=f"1 to {REPLICAS_MAX}")
        if self.engines < 1:
            raise InvalidRequest(f"{self.engines} engines", hint="give 1 or more")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a demand takes of such machines. Sizes are with all copies, rates at the peak."""

    geometry: Geometry
    demand: Demand
    machines: Machines

    def __post_init__(self) -> None:
        if self.nodes > NODES_MAX:
            raise InvalidRequest(
                f"{self.nodes} nodes are more than the {NODES_MAX} of one cluster",
                hint="give larger nodes, a shorter `--keep`, or plan several clusters",
            )

    # ---- sizes -----------------------------------------------------------------------------

    @property
    def session_bytes(self) -> float:
        """One copy of a whole conversation, without what all share."""
        return self.demand.session_tokens * self.geometry.token_bytes

    @property
    def active_bytes(self) -> float:
        """Of conversations that are going on, and of what all share."""
        tokens = self.demand.active_tokens + self.demand.shared_tokens
        return tokens * self.geometry.token_bytes * self.machines.replicas

    @property
    def ended_bytes(self) -> float:
        """Of those that have ended and shall be found again."""
        return self.demand.ended_tokens * self.geometry.token_bytes * self.machines.replicas

    @property
    def working_set_bytes(self) -> float:
        """All that shall be found."""
        return self.active_bytes + self.ended_bytes

    # ---- rates -----------------------------------------------------------------------------

    @property
    def read_bytes_per_s(self) -> float:
        """From all nodes to all engines, at the peak."""
        return self.demand.peak * self.demand.read_tokens_per_s * self.geometry.token_bytes

    @property
    def write_bytes_per_s(self) -> float:
        """From all engines to all nodes, at the peak: engines write every copy."""
        tokens = self.demand.peak * self.demand.written_tokens_per_s
        return tokens * self.geometry.token_bytes * self.machines.replicas

    @property
    def engine_gbit(self) -> float:
        """That the NIC of one instance needs, in the direction that needs more."""
        most = max(self.read_bytes_per_s, self.write_bytes_per_s)
        return most / self.machines.engines / LINK_SHARE / GIGABIT

    @property
    def node_gbit(self) -> float:
        """That the NICs of one node need, likewise."""
        most = max(self.read_bytes_per_s, self.write_bytes_per_s)
        return most / self.nodes / LINK_SHARE / GIGABIT

    @property
    def disk_writes_per_day(self) -> float:
        """Times that a node's disks are written over in a day, at the mean; 0 without disks."""
        if not self.machines.nvme_bytes:
            return 0.0
        mean = self.write_bytes_per_s / self.demand.peak
        return mean * DAY_S / (self.nodes * self.machines.nvme_bytes)

    # ---- nodes -----------------------------------------------------------------------------

    @property
    def nodes_for_memory(self) -> int:
        """So that what is going on is in memory; without disks, all that shall be found."""
        size = self.active_bytes if self.machines.nvme_bytes else self.working_set_bytes
        return math.ceil(size / (MEMORY_SHARE * self.machines.memory_bytes))

    @property
    def nodes_for_disk(self) -> int:
        """So that all that shall be found is on disk; 0 without disks."""
        if not self.machines.nvme_bytes:
            return 0
        return math.ceil(self.working_set_bytes / (DISK_SHARE * self.machines.nvme_bytes))

    @property
    def nodes_for_network(self) -> int:
        """So that their NICs carry the peak, in each direction."""
        most = max(self.read_bytes_per_s, self.write_bytes_per_s)
        return math.ceil(most / (LINK_SHARE * self.machines.nic_gbit * GIGABIT))

    @property
    def nodes(self) -> int:
        """The most of all these, and one for each copy."""
        sizes = (self.nodes_for_memory, self.nodes_for_disk, self.nodes_for_network)
        return max(*sizes, self.machines.replicas, 1)

    @property
    def nodes_because(self) -> str:
        """What decides it."""
        reasons = {
            "memory": self.nodes_for_memory,
            "disk": self.nodes_for_disk,
            "network": self.nodes_for_network,
            "replicas": self.machines.replicas,
        }
        return next(name for name, count in reasons.items() if count == self.nodes)

    @property
    def huge_pages(self) -> int:
        """Of 2 MiB, on each node."""
        return math.ceil(self.machines.memory_bytes / PAGE_BYTES)

    # ---- load or compute -------------------------------------------------------------------

    @property
    def break_even_gbit(self) -> float:
        """The rate at which loading a token takes as long as computing it."""
        per_s = self.machines.prefill_tokens_per_s * self.geometry.token_bytes
        return per_s / LINK_SHARE / GIGABIT

    @property
    def load_gain(self) -> float:
        """How many times as quick loading is as computing, through the NIC of an instance."""
        return self.machines.engine_nic_gbit / self.break_even_gbit

    @property
    def history_load_s(self) -> float:
        """To load the mean history, alone on the NIC of an instance."""
        rate = LINK_SHARE * self.machines.engine_nic_gbit * GIGABIT
        return self.demand.history_tokens * self.geometry.token_bytes / rate

    @property
    def history_compute_s(self) -> float:
        """To compute it."""
        return self.demand.history_tokens / self.machines.prefill_tokens_per_s

    @property
    def engines_with(self) -> int:
        """Instances that compute what is new, at the peak."""
        return self._engines(self.demand.prefill_tokens_per_s)

    @property
    def engines_without(self) -> int:
        """Instances that compute all histories too."""
        return self._engines(self.demand.cold_tokens_per_s)

    def _engines(self, tokens_per_s: float) -> int:
        return max(
            math.ceil(self.demand.peak * tokens_per_s / self.machines.prefill_tokens_per_s), 1
        )
