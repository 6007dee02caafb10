"""Plants: faults that a build of their own has in it, and the schedules that must find them.

What the suite does not find when it is there, it would not find when somebody makes that mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from chaos.history import ETCD
from chaos.operation import Step
from chaos.run import Verdict, run
from chaos.schedule import (
    CHANGES,
    CLIENTS,
    LANES,
    LEASE_S,
    LENGTHS,
    PATHS,
    Fault,
    Schedule,
    World,
    schedule_of,
)
from chaos.violation import Violation
from gd2fs._core import placement_order

TRIES_MAX = 8
LONG_LEASE_S = 3  # a node that was cut off speaks for so long that others may have changed things
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
    """A node that does not know of the latest map goes on as the home of a file.

    The first of the file's order hangs until its lease is over, so the second is its home. Then the
    network parts: on one side the second and a client, on the other everybody else, and there the
    first comes back. It takes a write, while the second goes on telling its client what was.
    """
    for seed in range(1_000_000):
        path = PATHS[seed % len(PATHS)]
        back, late, *others = places_of(path, nodes=3)
        world = World(provider="etcd", replicas=1, lease_s=LONG_LEASE_S)
        parted_s = 1.0 + LONG_LEASE_S + 1.2
        away = Fault("pause", 1.0, parted_s + 0.05 - 1.0, back)
        rest = (ETCD, back, *others)
        parts = [Fault("cut", parted_s, 2.4, who, late) for who in (*rest, "c1", "c2")]
        parts += [Fault("cut", parted_s, 2.4, who, "c0") for who in (*rest[1:], "c1", "c2")]
        aim = Aim(path, from_s=parted_s - 1.0, until_s=parted_s + 2.6)
        for lane in (0, 1):
            aim.add(lane, "put", parted_s - 0.4 + 0.1 * lane, length=LENGTHS[1])
            for at in range(22):
                aim.add(lane, "read", parted_s + 0.3 + 0.1 * at, length=LENGTHS[1], timeout_s=0.4)
        for at in range(4):
            aim.add(LANES + at, "put", parted_s + 0.4 + 0.2 * at, length=LENGTHS[1])
        yield aim.at(schedule_of(seed, world, [away, *parts]))


def _late_copies() -> Iterator[Schedule]:
    """A backup has a change whose home never heard that it has it, and the home dies later.

    What the backup answers is lost for longer than its home waits: the home gives that change up.
    When the next one has the same version, the backup takes it for the one that it has.
    """
    for seed in range(1_000_000):
        path = PATHS[seed % len(PATHS)]
        home, backup, _ = places_of(path, nodes=3)
        deaf = Fault("cut", 1.2, 1.6, backup, home)
        aim = Aim(path, from_s=1.0, until_s=6.0)
        aim.add(0, "write", 1.3, offset=0, length=LENGTHS[1])
        for at in range(3):
            aim.add(
                2 + at, "write", 2.5 + 0.5 * at, offset=(1 + at) * LENGTHS[3], length=LENGTHS[1]
            )
        for lane in range(LANES * CLIENTS):
            for at in range(4):
                aim.add(lane, "read", 4.6 + 0.25 * at, length=4 * LENGTHS[3])
        faults = [deaf, Fault("kill", 4.4, 2.5, home)]
        yield aim.at(schedule_of(seed, World(provider="etcd", replicas=2), faults))


class Aim:
    """Steps on one path, in place of what their lanes would do then, and of all other changes."""

    def __init__(self, path: str, *, from_s: float, until_s: float) -> None:
        self._path = path
        self._from_s, self._until_s = from_s, until_s
        self._steps: list[Step] = []

    def add(
        self,
        lane: int,
        kind: str,
        at_s: float,
        *,
        offset: int = 0,
        length: int = 0,
        timeout_s: float = 3.0,
    ) -> None:
        """One more. It gets its number by ``at``."""
        self._steps.append(Step(0, lane, at_s, kind, (self._path,), offset, length, timeout_s))

    def at(self, schedule: Schedule) -> Schedule:
        """That schedule with these steps."""
        lanes = {step.lane for step in self._steps}
        kept = [step for step in schedule.steps if not self._replaces(step, lanes)]
        number = max(step.number + len(step.names) for step in schedule.steps)
        made = [replace(step, number=number + at) for at, step in enumerate(self._steps)]
        steps = sorted([*kept, *made], key=lambda step: (step.lane, step.at_s))
        return replace(schedule, steps=tuple(steps))

    def _replaces(self, step: Step, lanes: set[int]) -> bool:
        if not self._from_s < step.at_s < self._until_s:
            return False
        return step.lane in lanes or (step.kind in CHANGES and self._path in step.names)


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
