"""Instances: the engines and the store of a topology, as child processes on free ports."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from gd2fs.bench.children import Child, Children
from gd2fs.engines.llamacpp.settings import UBATCH_DEFAULT
from gd2fs.errors import InvalidRequest

MIB = 1 << 20
INSTANCES_MAX = 64
CLUSTER = "demo"


@dataclass(frozen=True, slots=True)
class Setup:
    """How the instances of both topologies run.

    Attributes:
        model: Path of the GGUF file.
        instances: How many.
        slots: Of each: requests computed at the same time.
        threads: Of each.
        ubatch: Tokens that each computes at once.
        memory_mib: Room for KV caches: the store's arena, or that of all private caches together.
    """

    model: str
    instances: int = 4
    slots: int = 2
    threads: int = 1
    ubatch: int = UBATCH_DEFAULT
    memory_mib: int = 1024

    def __post_init__(self) -> None:
        if not 2 <= self.instances <= INSTANCES_MAX:
            raise InvalidRequest(
                f"`--instances` is {self.instances}, but must be 2 to {INSTANCES_MAX}"
            )

    def cache_ram_mib(self, *, ctx: int, kv_bytes_per_token: int) -> int:
        """Private prompt cache of each instance, so that with its slots it has its equal share.

        Raises:
            InvalidRequest: The slots alone are more than the share.
        """
        slots_bytes = self.slots * ctx * kv_bytes_per_token
        share_bytes = self.memory_mib * MIB // self.instances
        if share_bytes < slots_bytes + MIB:
            least = self.instances * (slots_bytes // MIB + 2)
            raise InvalidRequest(
                f"`--memory` is {self.memory_mib} MiB, less than the slots of "
                f"{self.instances} instances take",
                hint=f"pass `--memory {least}MiB` or more",
            )
        return (share_bytes - slots_bytes) // MIB


@dataclass(frozen=True, slots=True)
class Instance:
    """One running engine."""

    child: Child

    @property
    def address(self) -> str:
        """Base URL."""
        return self.child.facts["address"]


def start_node(children: Children, *, memory_mib: int) -> Child:
    """Start a store of one node; it is ready on return."""
    node = children.start(
        "node",
        [
            *(sys.executable, "-m", "gd2fs", "serve", "--cluster", CLUSTER),
            *("--listen", "tcp://127.0.0.1:0", "--memory", f"{memory_mib}MiB"),
        ],
    )
    node.wait_ready()
    return node


def store_options(node: Child) -> list[str]:
    """Options that make an instance use the store of ``node``."""
    return ["--cp", node.facts["listen"].removeprefix("tcp://"), "--cluster", CLUSTER]


def private_options(cache_ram_mib: int) -> list[str]:
    """Options that leave an instance to its own caches."""
    return ["--no-store", "--cache-ram-mib", str(cache_ram_mib)]


def start_instances(
    children: Children, setup: Setup, *, count: int, slots: int, ctx: int, options: Sequence[str]
) -> list[Instance]:
    """Start ``count`` engines at once; all are ready on return."""
    command = [
        *(sys.executable, "-m", "gd2fs.engines.llamacpp", "--model", setup.model, "--port", "0"),
        *("--slots", str(slots), "--threads", str(setup.threads), "--ctx", str(ctx)),
        *("--ubatch", str(setup.ubatch), *options),
    ]
    started = [children.start(f"engine-{index}", command) for index in range(count)]
    for child in started:
        child.wait_ready()
    return [Instance(child) for child in started]
