"""Plants: faults that a build of their own has in it, and the schedules that must find them.

What the suite does not find when it is there, it would not find when somebody makes that mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chaos.history import ETCD
from chaos.run import Verdict, run
from chaos.schedule import LEASE_S, PATHS, Fault, Schedule, World, schedule_of
from gd2fs._core import placement_order

TRIES_MAX = 8
PLANTED_PYTHON = (sys.executable, "-m", "chaos.planted")


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault by its name in `core/planted.h`, and what is run until it is found."""

    name: str
    schedules: Callable[[], Iterator[Schedule]]


@dataclass(frozen=True, slots=True)
class Search:
    """What came of looking for a plant."""

    plant: Plant
    verdicts: list[Verdict]

    @property
    def is_found(self) -> bool:
        return bool(self.verdicts and self.verdicts[-1].violations)


def search(plant: Plant, core: Path) -> Search:
    """Run the schedules of a plant on the core that has it, until the checker sees it."""
    environment = {"GD2FS_PLANTED_CORE": str(core.resolve()), "GD2FS_PLANTED_FAULT": plant.name}
    verdicts: list[Verdict] = []
    for schedule in islice(plant.schedules(), TRIES_MAX):
        verdicts.append(run(schedule, python=PLANTED_PYTHON, environment=environment))
        if verdicts[-1].violations:
            break
    return Search(plant, verdicts)


def _any_static() -> Iterator[Schedule]:
    for seed in range(1_000_000):
        yield schedule_of(seed)


def _long_pauses() -> Iterator[Schedule]:
    """Each node in turn hangs for two leases, while its files live on at others, and is back."""
    world = World(provider="etcd", replicas=2)
    for seed in range(1_000_000):
        yield schedule_of(seed, world, [Fault("pause", 1.2, 2.1 * LEASE_S, f"n{seed % 3}")])


def _late_homes() -> Iterator[Schedule]:
    """A node that does not know of the latest maps goes on as the home of a file.

    Of the file's order the first two die, so the third is its home. They come back, and the third
    hears neither from them nor from etcd; one client hears from nobody but the third.
    """
    for seed in range(1_000_000):
        first, second, late, other = places_of(PATHS[seed % len(PATHS)])
        back_s = 1.0 + LEASE_S + 0.9
        deaf = [Fault("cut", back_s - 0.3, 1.9, who, late) for who in (ETCD, first, second)]
        alone = [Fault("cut", back_s - 0.3, 1.9, who, "c0") for who in (first, second, other)]
        dead = [Fault("kill", 1.0, back_s - 1.0, who) for who in (first, second)]
        world = World(nodes=4, provider="etcd", replicas=2)
        yield schedule_of(seed, world, [*dead, *deaf, *alone])


def _late_copies() -> Iterator[Schedule]:
    """What a file's home sent to its backup arrives late, and then the home dies."""
    for seed in range(1_000_000):
        home, backup, _ = places_of(PATHS[seed % len(PATHS)], nodes=3)
        world = World(provider="etcd", replicas=2, proxied=int(backup[1:]))
        stall = Fault("stall", 1.2, 2.2, backup)
        yield schedule_of(seed, world, [stall, Fault("kill", 3.5, 2.0, home)])


def places_of(path: str, nodes: int = 4) -> list[str]:
    """The nodes in the order in which they are home of ``path``."""
    names = [f"n{index}" for index in range(nodes)]
    order = placement_order(names, [100] * nodes, path.encode(), 0, nodes)
    return [names[index] for index in order]


PLANTS = (
    Plant("serve_old_copy", _any_static),
    Plant("skip_checksum", _any_static),
    Plant("acknowledge_before_publish", _any_static),
    Plant("trust_restored_record", _long_pauses),
    Plant("no_barrier", _late_homes),
    Plant("reuse_version", _late_copies),
)
