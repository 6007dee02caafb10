"""Setting: one answer to "what if", as the command line has it, and the fleet that it means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import INSTANT, Rates
from gd2fs.sim.fleet import TOPOLOGIES, UNLIMITED, Fleet, Store
from gd2fs.sim.trace import plain

BOTH = "both"
GBIT_LEAST = 1e-6
MOST = {  # as the core can count them
    "cache_blocks": 1 << 40,
    "disk_blocks": 1 << 40,
    "device_blocks": 1 << 40,
    "workers": 1 << 30,
    "seed": 1 << 62,
    "node_gbit": 1e9,
    "engine_gbit": 1e9,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the options say.

    Attributes:
        topology: ``private``: each instance has ``cache_blocks`` in its own host memory;
            ``shared``: a GD2FS cluster has those of all instances together.
        cache_blocks: Of each instance; 0: unlimited.
        disk_blocks: On NVMe below them, of each instance; with ``shared`` only; 0: none.
        device_blocks: On each instance's device, in both topologies.
        kills: ``SECONDS:NODE``: nodes that die.

    The others are those of ``Fleet`` and ``Store``.
    """

    topology: str
    instances: int = 1
    balancer: str = "round-robin"
    cache_blocks: int = 0
    disk_blocks: int = 0
    device_blocks: int = 0
    nodes: int = 1
    policy: str = "lru"
    replicas: int = 1
    node_gbit: float = 100.0
    engine_gbit: float = 100.0
    engine: Rates = INSTANT
    never_slower: bool = True
    workers: int = 0
    kills: Sequence[str] = ()
    tide: Sequence[tuple[float, int]] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        if self.topology not in TOPOLOGIES:
            known = f"one of {', '.join((*TOPOLOGIES, BOTH))}"
            raise InvalidRequest(f"`--topology` is `{self.topology}`", hint=known)
        for name, most in MOST.items():
            value = getattr(self, name)
            if not 0 <= value <= most:  # nor NaN
                raise InvalidRequest(
                    f"`{option_of(name)}` is {value}", hint=f"give 0 to {plain(most)}"
                )
            if 0 < value < GBIT_LEAST:  # what is counted has no value between 0 and 1
                raise InvalidRequest(
                    f"`{option_of(name)}` is {value}",
                    hint=f"give {plain(GBIT_LEAST)} or more, or 0",
                )

    @property
    def is_shared(self) -> bool:
        """Is there a cluster?"""
        return self.topology == "shared"

    def fleet(self) -> Fleet:
        """The fleet. Raises InvalidRequest when it cannot be."""
        return Fleet(
            instances=self.instances,
            balancer=self.balancer,
            engine=self.engine,
            device_blocks=self.device_blocks,
            host_blocks=0 if self.is_shared else self.cache_blocks or UNLIMITED,
            store=self._store() if self.is_shared else None,
            engine_gbit=self.engine_gbit,
            never_slower=self.never_slower,
            workers=self.workers,
            tide=self.tide,
            seed=self.seed,
        )

    def _store(self) -> Store:
        return Store(
            nodes=self.nodes,
            memory_blocks=self.instances * self.cache_blocks or UNLIMITED,
            disk_blocks=self.instances * self.disk_blocks,
            policy=self.policy,
            replicas=self.replicas,
            node_gbit=self.node_gbit,
            deaths=[_kill_of(text) for text in self.kills],
        )

    def facts(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def option_of(name: str) -> str:
    """What a field is called on the command line."""
    return "--" + name.replace("_gbit", "-nic").replace("_", "-")


def _kill_of(text: str) -> tuple[float, int]:
    at, _, node = text.partition(":")
    try:
        at_s, number = float(at), int(node)
        if not (math.isfinite(at_s) and at_s >= 0):
            raise ValueError
    except ValueError as error:
        raise InvalidRequest(
            f"`--kill-node` is `{text}`",
            hint="give seconds, 0 or more, and a node's number, as `600:0`",
        ) from error
    return at_s, number
