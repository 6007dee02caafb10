"""Fleet: instances, their private caches or a GD2FS cluster, the balancer, and what links them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gd2fs._core import NODES_MAX, REPLICAS_MAX, SIM_INSTANCES_MAX
from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import INSTANT, Rates
from gd2fs.sim.trace import Trace

BALANCERS = ("round-robin", "random", "least-loaded", "sticky", "cache-aware")
POLICIES = ("lru", "s3-fifo", "priority")
TOPOLOGIES = ("private", "shared")
UNLIMITED = -1  # blocks, as the core has it
GIGABIT = 1e9 / 8
LINK_SHARE = 0.8  # of a NIC's rate that bytes of blocks get, as `gd2fs plan` counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A GD2FS cluster.

    Attributes:
        nodes: How many; their names are ``node-0`` and so on, unless ``names`` has others.
        memory_blocks: Of the whole cluster; ``UNLIMITED``.
        disk_blocks: Likewise, on NVMe; 0: none.
        policy: What leaves memory first.
        replicas: Copies.
        node_gbit: NICs of a node; 0: any rate.
        disk_read, disk_write: Bytes a second of a node's disks; 0: any rate.
        deaths: Times at which a node dies, and which.
    """

    nodes: int = 1
    names: Sequence[str] = ()
    memory_blocks: int = UNLIMITED
    disk_blocks: int = 0
    policy: str = "lru"
    replicas: int = 1
    node_gbit: float = 100.0
    disk_read: float = 6e9
    disk_write: float = 2e9
    deaths: Sequence[tuple[float, int]] = ()

    def __post_init__(self) -> None:
        _check("nodes", self.nodes, 1, NODES_MAX)
        _check("replicas", self.replicas, 1, min(REPLICAS_MAX, self.nodes))
        _check_name("policy", self.policy, POLICIES)
        for at_s, node in self.deaths:
            if not (math.isfinite(at_s) and at_s >= 0):
                raise InvalidRequest(f"a node dies at {at_s:g} s", hint="give seconds, 0 or more")
            _check("kill-node", node, 0, self.nodes - 1)

    def for_core(self) -> dict[str, Any]:
        """As the core takes it: blocks of each node."""
        return {
            "nodes": list(self.names) or [f"node-{at}" for at in range(self.nodes)],
            "weights": [1] * self.nodes,
            "namespace": "sim",
            "policy": self.policy,
            "memory_blocks": _each(self.memory_blocks, self.nodes),
            "disk_blocks": _each(self.disk_blocks, self.nodes),
            "replicas": self.replicas,
            "may_die": bool(self.deaths),
            "node_bytes_per_s": LINK_SHARE * self.node_gbit * GIGABIT,
            "disk_read_bytes_per_s": self.disk_read,
            "disk_write_bytes_per_s": self.disk_write,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Who answers.

    Attributes:
        instances: How many engines.
        balancer: Which of them gets a request, one of ``BALANCERS``.
        engine: What each can do.
        device_blocks: Cache of each on its device; 0: none, ``UNLIMITED``. Where engines have
            slots, their device has what those have, and nothing else.
        host_blocks: Likewise in its own host memory.
        store: The cluster; None: private caches only.
        host_bytes_per_s: From host memory to the device.
        engine_gbit: NICs of an instance; 0: any rate.
        load_s: Of every load from the store, beside its bytes.
        never_slower: What would take longer to load than to compute is computed.
        workers: So many requests at a time, each sent when another was answered; 0: as the trace.
        turn_s: With workers, before every request.
        tide: From when on there are how many instances; empty: all, always.
        seed: Of the balancer's choices.
    """

    instances: int = 1
    balancer: str = "round-robin"
    engine: Rates = INSTANT
    device_blocks: int = 0
    host_blocks: int = 0
    store: Store | None = None
    host_bytes_per_s: float = 25e9
    engine_gbit: float = 100.0
    load_s: float = 0.001
    never_slower: bool = True
    workers: int = 0
    turn_s: float = 0.0
    tide: Sequence[tuple[float, int]] = field(default=())
    seed: int = 1

    def __post_init__(self) -> None:
        _check("instances", self.instances, 1, SIM_INSTANCES_MAX)
        _check_name("balancer", self.balancer, BALANCERS)

    @property
    def topology(self) -> Literal["private", "shared"]:
        """Which of ``TOPOLOGIES`` it is."""
        return "private" if self.store is None else "shared"

    def check_for(self, trace: Trace) -> None:
        """Refuse a trace whose requests are for instances that there are not: InvalidRequest."""
        last = int(trace.instance.max()) if len(trace.instance) else 0
        if last >= self.instances:
            where = f"{trace.name}:{trace.instance_line}" if trace.instance_line else trace.name
            raise InvalidRequest(
                f"{where} has a request for instance {last}, of {self.instances}",
                hint=f"instances count from 0: give `--instances {last + 1}` or more",
            )

    def for_core(self, block_tokens: int, bin_s: float) -> dict[str, Any]:
        """As the core takes it."""
        return {
            "instances": self.instances,
            "balancer": self.balancer,
            "seed": self.seed,
            "engine": self.engine.for_core(),
            "slots": self.engine.slots,
            "device_blocks": self.device_blocks,
            "host_blocks": self.host_blocks,
            "block_bytes": block_tokens * self.engine.token_bytes,
            "host_bytes_per_s": self.host_bytes_per_s,
            "engine_bytes_per_s": LINK_SHARE * self.engine_gbit * GIGABIT,
            "load_s": self.load_s,
            "never_slower": self.never_slower,
            "store": None if self.store is None else self.store.for_core(),
            "tide": list(self.tide),
            "deaths": [] if self.store is None else sorted(self.store.deaths),
            "workers": self.workers,
            "turn_s": self.turn_s,
            "bin_s": bin_s,
        }


def _each(blocks: int, nodes: int) -> int:
    """Of a node, so that all together have as many; at least one where there are any."""
    return blocks if blocks <= 0 else math.ceil(blocks / nodes)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        option = "--" + name.replace("_", "-")
        raise InvalidRequest(f"`{option}` is {value}", hint=f"give {least} to {most}")


def _check_name(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidRequest(f"`--{name}` is `{value}`", hint=f"one of {', '.join(known)}")
