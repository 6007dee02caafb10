"""Plants: faults that a build of their own has in it, and the schedules that must find them.

What the suite does not find when it is there, it would not find when somebody makes that mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from chaos.history import ETCD
from chaos.operation import Step
from chaos.run import Verdict, run
from chaos.schedule import LANES, LEASE_S, PATHS, Fault, Schedule, World, schedule_of
from chaos.violation import Violation
from gd2fs._core import placement_order

TRIES_MAX = 8
PLANTED_PYTHON = (sys.executable, "-m", "chaos.planted")


@dataclass(frozen=True, slots=True)
class Plant:
    """A fault by its name in `core/planted.h`, and what is run until it is found.

    Attributes:
        rule: Of records, as `test_protocol` names it: the model of them runs without it too.
    """

    name: str
    schedules: Callable[[], Iterator[Schedule]]
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """What came of looking for a plant.

    Attributes:
        control: The schedule that found it, without the fault: that must pass.
    """

    plant: Plant
    verdicts: list[Verdict]
    control: Verdict | None = None

    @property
    def shown(self) -> Violation | None:
        """What was seen of it; None when it was not found."""
        return wrong_read(self.verdicts[-1]) if self.verdicts else None


def search(plant: Plant, core: Path) -> Search:
    """Run the schedules of a plant on the core that has it, until the checker sees it."""
    verdicts: list[Verdict] = []
    for schedule in islice(plant.schedules(), TRIES_MAX):
        verdicts.append(_run_with(plant.name, schedule, core))
        if wrong_read(verdicts[-1]):
            return Search(plant, verdicts, _run_with("", schedule, core))
    return Search(plant, verdicts)


def wrong_read(verdict: Verdict) -> Violation | None:
    """The first violation that a read shows, if one does: that is what plants do."""
    reads = ("read", "get", "page_get")
    of_reads = (each for each in verdict.violations if each.records)
    return next((each for each in of_reads if each.records[0].kind in reads), None)


def _run_with(fault: str, schedule: Schedule, core: Path) -> Verdict:
    environment = {"GD2FS_PLANTED_CORE": str(core.resolve()), "GD2FS_PLANTED_FAULT": fault}
    return run(schedule, python=PLANTED_PYTHON, environment=environment)


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

    Of the file's order the first two hang until their leases are over, so the third is its home.
    They come back, and the third hears neither from them nor from etcd; one client hears from
    nobody but the third.
    """
    for seed in range(1_000_000):
        first, second, late, other = places_of(PATHS[seed % len(PATHS)])
        back_s = 1.0 + LEASE_S + 0.9
        deaf = [Fault("cut", back_s - 0.3, 1.9, who, late) for who in (ETCD, first, second)]
        alone = [Fault("cut", back_s - 0.3, 1.9, who, "c0") for who in (first, second, other)]
        away = [Fault("pause", 1.0, back_s - 1.0, who) for who in (first, second)]
        world = World(nodes=4, provider="etcd", replicas=2)
        yield schedule_of(seed, world, [*away, *deaf, *alone])


def _late_copies() -> Iterator[Schedule]:
    """A backup hangs for longer than its home waits for it, though not for a lease, then the home
    dies. Two clients truncate a file meanwhile: the home gives the first change up, which arrives
    before the second.
    """
    for seed in range(1_000_000):
        path = PATHS[seed % len(PATHS)]
        home, backup, _ = places_of(path, nodes=3)
        pause = Fault("pause", 1.15, 1.35, backup)
        faults = [pause, Fault("kill", 2.6, 2.5, home)]
        made = schedule_of(seed, World(provider="etcd", replicas=2), faults)
        yield _with_truncates(made, path, ((0, 1.22, 4096), (LANES, 1.3, 0)))


def _with_truncates(
    schedule: Schedule, path: str, truncates: Sequence[tuple[int, float, int]]
) -> Schedule:
    """Truncates by lane, moment and size, in place of what these lanes would do then."""
    lanes = {lane for lane, _, _ in truncates}
    steps = [step for step in schedule.steps if step.lane not in lanes or not 1.0 < step.at_s < 2.0]
    number = max(step.number + len(step.names) for step in schedule.steps)
    for lane, at_s, size in truncates:
        steps.append(Step(number, lane, at_s, "truncate", (path,), length=size))
        number += 1
    return replace(schedule, steps=tuple(sorted(steps, key=lambda step: (step.lane, step.at_s))))


def places_of(path: str, nodes: int = 4) -> list[str]:
    """The nodes in the order in which they are home of ``path``."""
    names = [f"n{index}" for index in range(nodes)]
    order = placement_order(names, [100] * nodes, path.encode(), 0, nodes)
    return [names[index] for index in order]


PLANTS = (
    Plant("serve_old_copy", _any_static),
    Plant("skip_checksum", _any_static),
    Plant("acknowledge_before_publish", _any_static),
    Plant("trust_restored_record", _long_pauses, rule="unbroken"),
    Plant("no_barrier", _late_homes, rule="barrier"),
    Plant("reuse_version", _late_copies, rule="new version"),
)
