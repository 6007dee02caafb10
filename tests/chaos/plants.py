"""Plants: faults that a build of their own has in it, and the schedules that must find them.

What the suite does not find when it is there, it would not find when somebody makes that mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chaos.run import Verdict, run
from chaos.schedule import ETCD_THEMES, THEMES, Schedule, World, schedule_of

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


def _static(*kinds: str) -> Callable[[], Iterator[Schedule]]:
    """Seeds whose theme has all of ``kinds``, on a static list."""
    return lambda: _of_theme(THEMES, set(kinds), World())


def _etcd(*kinds: str, replicas: int = 2) -> Callable[[], Iterator[Schedule]]:
    """Seeds whose theme has all of ``kinds``, under etcd."""
    return lambda: _of_theme(ETCD_THEMES, set(kinds), World(provider="etcd", replicas=replicas))


def _of_theme(
    themes: tuple[tuple[str, ...], ...], kinds: set[str], world: World
) -> Iterator[Schedule]:
    for seed in range(1_000_000):
        if kinds <= set(themes[seed % len(themes)]):
            yield schedule_of(seed, world)


PLANTS = (
    Plant("serve_old_copy", _static()),
    Plant("skip_checksum", _static("damage")),
    Plant("acknowledge_before_publish", _static()),
    Plant("trust_restored_record", _etcd("pause")),
    Plant("no_barrier", _etcd("etcd_cut")),
    Plant("reuse_version", _etcd("cut")),
)
