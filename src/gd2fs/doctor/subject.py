"""Subject: whom the doctor looks at: a machine, what its node shall be, a cluster, an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gd2fs.config import SOCKET_BUFFER_BYTES, NodeConfig
from gd2fs.doctor.machine import Machine
from gd2fs.membership import host_of
from gd2fs.nvme import NvmePlace

if TYPE_CHECKING:
    from gd2fs.doctor.answers import ClusterAnswer

ENGINES = ("sglang", "vllm")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the node of this machine shall be. Without a configuration it is not known, and checks
    that need it say what there is.

    Attributes:
        is_known: A configuration was given, and is right.
        fault: What is wrong with the configuration; ``hint``: what to do.
        memory_bytes: Of its arena; 0: not known.
        arena: Its kind.
        threads: That move bytes.
        listen: ``ADDR:PORT`` where it serves.
        advertise: ``ADDR:PORT`` where others reach it.
        nvme: Its folders.
        state_dir: Its folder of state; empty: none.
        congestion: As configured; empty: cubic or reno.
        socket_buffer_bytes: Of each direction.
        options: All that the file says, by name: also what other parts of it are about.
    """

    is_known: bool = False
    fault: str = ""
    hint: str = ""
    memory_bytes: int = 0
    arena: str = "auto"
    threads: int = 2
    listen: tuple[str, ...] = ()
    advertise: tuple[str, ...] = ()
    nvme: tuple[NvmePlace, ...] = ()
    state_dir: str = ""
    congestion: str = ""
    socket_buffer_bytes: int = SOCKET_BUFFER_BYTES
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hosts(self) -> list[str]:
        """Where it listens, without ports."""
        return [host_of(each) for each in self.listen]

    @property
    def arena_file(self) -> str:
        """Where a kept arena lies; empty for one that is not."""
        return self.arena.removeprefix("file:") if self.arena.startswith("file:") else ""

    @property
    def has_hugetlb(self) -> bool:
        """It shall be, or tries to be, of hugetlb pages."""
        return self.arena in ("auto", "hugetlb") or "huge" in self.arena_file


def wanted_of(config: NodeConfig, options: Mapping[str, Any]) -> Wanted:
    """What a configuration asks for."""
    return Wanted(
        is_known=True,
        memory_bytes=config.memory_bytes,
        arena=config.arena,
        threads=config.threads,
        listen=config.listen,
        advertise=config.advertise,
        nvme=config.nvme.places,
        state_dir=config.state_dir or "",
        congestion=config.congestion,
        socket_buffer_bytes=config.socket_buffer_bytes,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class Subject:
    """What checks are given. ``cluster`` None: nobody is to be asked. ``engine``: its name, or
    empty."""

    machine: Machine
    wanted: Wanted = field(default_factory=Wanted)
    cluster: ClusterAnswer | None = None
    engine: str = ""

    def setting(self, name: str) -> str:
        """An option of the file, else its ``GD2FS_`` variable; empty without either."""
        value = self.wanted.options.get(name)
        return str(value) if value else self.machine.environment.get(f"GD2FS_{name.upper()}", "")
