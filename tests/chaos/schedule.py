"""Schedule: everything that will be done in one run, made from the seed alone before it starts.

The same seed gives the same world, the same calls and the same faults at the same times. What
the machine makes of them still differs from run to run: that is what the history is for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chaos.operation import PAGE_KINDS, Step

LANES = 2  # threads of one client
CLIENTS = 3
PATHS = tuple(f"/chaos/file{index}" for index in range(4))
STILL_PATHS = tuple(f"/chaos/still{index}" for index in range(6))  # put once, then only read
KEYS = tuple(f"key{index}" for index in range(10))
FILE_BYTES = 384 << 10  # writes begin below this
CHUNK_BYTES = 64 << 10  # so a write may span several chunks
LENGTHS = (8, 4096, 5000, 64 << 10, 70_000, 160 << 10)  # all multiples of a word
TIMEOUTS_S = (3.0, 3.0, 1.0, 0.4)
BATCH_MAX = 6
EMPTY_SHARE = 0.15  # of puts
FOLLOWED_SHARE = 0.4  # of changes, that the same lane reads at once

CALM_S = 1.0  # at first nothing is wrong
STEP_EVERY_S = 0.045  # of a lane, on average

KINDS = {  # weights
    "read": 26,
    "get": 6,
    "write": 16,
    "append": 7,
    "put": 7,
    "truncate": 4,
    "unlink": 2,
    "create": 4,
    "page_put": 11,
    "page_get": 16,
    "page_drop": 1,
}
DISK_KINDS = {"cool": 10, "page_cool": 10, "warm": 3, "page_warm": 3}  # where there is one
CHANGES = ("write", "append", "put", "truncate", "unlink", "create")


@dataclass(frozen=True, slots=True)
class Pace:
    """When things happen, from the start of the load.

    Attributes:
        faults_end_s: All faults are over.
        settle_s: After a fault, until all must be as before.
        fault_s_max: No fault lasts longer.
    """

    faults_end_s: float
    settle_s: float
    fault_s_max: float

    @property
    def sweep_s(self) -> float:
        """Every client reads everything."""
        return self.faults_end_s + self.settle_s + 0.2


DISK_MEMORY = "16MiB"
LEASE_S = 2
# With leases a node that was away for a lease has to join again, and what was moved comes back.
LEASED = Pace(5.8, 4.5, 1.8 * LEASE_S)
PACES = {"static": Pace(5.0, 2.0, 2.5), "etcd": LEASED, "kubernetes": LEASED}


@dataclass(frozen=True, slots=True)
class World:
    """What a run is made of. Sizes as `gd2fs serve --memory` takes them.

    Attributes:
        proxied: The node that is reached through the suite's proxy, or None.
        has_local_client: Client 0 is on node 0's host and uses shared memory.
        is_small: The arena is too small for what is written: nothing is claimed of hits.
        zero_copy: As `gd2fs serve --zero-copy`.
        lease_s: Of the nodes, where there are any; 0: LEASE_S.
        has_disk: Every node has one below its memory, and too little memory for all.
        is_kept: Every node's memory is a file, which a node that was killed finds again.
        rdma: Payload goes by one-sided transfers, over these transports of UCX; empty: it does not.
        nvme: With a disk, how it is written and what stays there, as ``gd2fs serve`` takes them.
    """

    nodes: int = 3
    replicas: int = 1
    provider: str = "static"
    lease_s: int = 0
    memory: str = "256MiB"
    proxied: int | None = None
    has_local_client: bool = False
    is_small: bool = False
    zero_copy: str = "auto"
    value_scale: int = 1
    has_disk: bool = False
    is_kept: bool = False
    rdma: str = ""
    nvme: tuple[str, str] = ("back", "inclusive")

    @property
    def is_one_host(self) -> bool:
        """UCX's shared memory does not reach from one network namespace into another."""
        return self.rdma not in ("", "tcp")

    @property
    def pace(self) -> Pace:
        return PACES[self.provider]

    def replay(self, seed: int) -> str:
        """What runs the schedule of that seed again."""
        arguments = f"--provider {self.provider} --replicas {self.replicas}"
        arguments += " --nvme" * self.has_disk + " --kept" * self.is_kept
        arguments += f" --rdma {self.rdma}" if self.rdma else ""
        return f'make chaos SEED={seed} CHAOS_ARGS="{arguments}"'


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at ``at_s`` and is right again ``for_s`` later.

    Attributes:
        kind: kill (and start again; a node is empty then), pause, link_down, cut (from ``target``
            to ``other``), loss (``amount`` percent on the way to ``target``), client_kill (for
            ever); of the proxied node: delay (``amount`` ms), trickle, half_open, stall, reset,
            damage.
        target: ``n0``, ``c1``, ``etcd``, which may be the API of Kubernetes too.
    """

    kind: str
    at_s: float
    for_s: float
    target: str
    other: str = ""
    amount: int = 0

    @property
    def end_s(self) -> float:
        return self.at_s + self.for_s

    def __str__(self) -> str:
        what = f"{self.kind} {self.target}" + (f" to {self.other}" if self.other else "")
        amount = f" {self.amount}" if self.amount else ""
        return f"{what}{amount} at {self.at_s:.2f} s for {self.for_s:.2f} s"


@dataclass(frozen=True)
class Schedule:
    seed: int
    world: World
    steps: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = field(default=())

    def steps_of(self, client: int) -> list[Step]:
        return [step for step in self.steps if step.lane // LANES == client]


PROXY_FAULTS = ("delay", "trickle", "half_open", "stall", "reset", "damage")
NETWORK_FAULTS = ("link_down", "cut", "loss", "etcd_cut")
# What a seed is mostly about; seeds in a row go through all of them.
THEMES: tuple[tuple[str, ...], ...] = (
    ("kill",),
    ("pause",),
    ("cut",),
    ("damage",),
    ("link_down",),
    ("loss", "pause"),
    ("half_open", "kill"),
    ("client_kill", "pause"),
    ("reset", "cut"),
    ("full",),
    ("delay", "pause"),
    ("local", "kill"),
    ("trickle", "link_down"),
    ("kill", "cut", "pause"),
    ("stall", "pause"),
)
ETCD_THEMES: tuple[tuple[str, ...], ...] = (
    ("kill",),
    ("pause",),
    ("etcd_kill",),
    ("cut",),
    ("etcd_pause", "cut"),
    ("link_down",),
    ("etcd_cut",),
    ("half_open", "pause"),
    ("etcd_kill", "kill"),
    ("loss", "kill"),
    ("etcd_cut", "pause", "client_kill"),
    ("damage", "kill"),
    ("stall", "kill"),
)


def schedule_of(
    seed: int, world: World | None = None, faults: Sequence[Fault] | None = None
) -> Schedule:
    """The schedule of a seed.

    Args:
        seed: What decides everything that is not given.
        world: What is asked for; the seed chooses the rest.
        faults: Just these.
    """
    chance = random.Random(seed)
    world = world or World()
    themes = THEMES if world.provider == "static" else ETCD_THEMES
    theme = themes[seed % len(themes)]
    made = world_of(chance, theme, world)
    made_faults = faults_of(chance, theme, made)
    chosen = made_faults if faults is None else faults
    ordered = tuple(sorted(chosen, key=lambda fault: fault.at_s))
    return Schedule(seed, made, tuple(StepMaker(chance, made).steps()), ordered)


def world_of(chance: random.Random, theme: tuple[str, ...], world: World) -> World:
    """Fill in what the theme and the dice say."""
    if world.provider != "static":
        world = replace(world, lease_s=world.lease_s or LEASE_S)
    if "full" in theme:
        world = replace(world, is_small=True, memory="16MiB", value_scale=4)
    if any(kind in PROXY_FAULTS for kind in theme) and world.proxied is None:
        world = replace(world, proxied=chance.randrange(world.nodes))
    world = replace(
        world,
        has_local_client="local" in theme,
        zero_copy=chance.choice(("auto", "on", "off")),
    )
    return _with_disk(chance, world) if world.has_disk else world


def _with_disk(chance: random.Random, world: World) -> World:
    """What a killed node had evicted it cannot tell any more, so a kept one evicts nothing."""
    memory = world.memory if world.is_kept or world.is_small else DISK_MEMORY
    nvme = (chance.choice(("back", "through")), chance.choice(("inclusive", "exclusive")))
    return replace(world, memory=memory, nvme=nvme)


def faults_of(chance: random.Random, theme: tuple[str, ...], world: World) -> list[Fault]:
    """One to three faults of each kind of the theme; of one node at a time only one is killed
    or paused."""
    kinds = [kind for kind in theme if kind not in ("full", "local")]
    if world.is_one_host:
        kinds = [kind for kind in kinds if kind not in NETWORK_FAULTS]
    if theme == ("full",) or not kinds:
        kinds = ["client_kill", "pause"]
    faults: list[Fault] = []
    for kind in kinds:
        for _ in range(1 if kind == "client_kill" else chance.randint(1, 3)):
            fault = _fault(chance, kind, world)
            if not any(_clash(fault, other) for other in faults):
                faults.append(fault)
    return faults


def _fault(chance: random.Random, kind: str, world: World) -> Fault:
    pace = world.pace
    at_s = chance.uniform(CALM_S, pace.faults_end_s - 1.0)
    for_s = chance.uniform(0.2, min(pace.fault_s_max, pace.faults_end_s - at_s))
    node = f"n{chance.randrange(world.nodes)}"
    if kind == "client_kill":
        return Fault(kind, at_s, 0.0, f"c{chance.randrange(CLIENTS)}")
    if kind in PROXY_FAULTS:
        amount = chance.randint(5, 300) if kind == "delay" else 0
        return Fault(kind, at_s, for_s, f"n{world.proxied}", amount=amount)
    if kind == "loss":
        return Fault(kind, at_s, for_s, node, amount=chance.choice((2, 10, 40)))
    if kind in ("etcd_kill", "etcd_pause"):
        return Fault(kind.removeprefix("etcd_"), at_s, for_s, "etcd")
    if kind == "etcd_cut":
        return Fault("cut", at_s, for_s, *chance.sample((node, "etcd"), 2))
    if kind == "cut":
        ends = [f"n{index}" for index in range(world.nodes)]
        ends += [f"c{index}" for index in range(CLIENTS)]
        one, other = chance.sample(ends, 2)
        if one[0] == other[0] == "c":  # clients do not speak to each other
            other = node
        return Fault(kind, at_s, for_s, one, other)
    return Fault(kind, at_s, for_s, node)


def _clash(one: Fault, other: Fault) -> bool:
    """Both at one time would undo each other, or leave nothing to say."""
    apart = one.end_s + 0.3 < other.at_s or other.end_s + 0.3 < one.at_s
    is_same = one.target == other.target or {one.kind, other.kind} <= {"kill"}
    both_proxy = one.kind in PROXY_FAULTS and other.kind in PROXY_FAULTS
    return not apart and (is_same or both_proxy)


class StepMaker:
    """Makes the calls of a run; every change gets numbers of its own."""

    def __init__(self, chance: random.Random, world: World) -> None:
        self._chance = chance
        self._world = world
        self._next = 1

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        for lane in range(CLIENTS * LANES):
            at_s = 0.0
            if lane < len(PATHS):
                steps.append(self._step(lane, at_s, "put", (PATHS[lane],)))
            steps.append(self._step(lane, at_s, "put", (STILL_PATHS[lane],), is_patient=True))
            at_s = self._later(at_s)
            while at_s < self._world.pace.sweep_s - 0.3:
                steps += self._turn(lane, at_s)
                at_s = self._later(at_s)
            steps += self._sweep(lane)
        return steps

    def _later(self, at_s: float) -> float:
        return at_s + self._chance.expovariate(1 / STEP_EVERY_S)

    def _turn(self, lane: int, at_s: float) -> list[Step]:
        kinds = KINDS | DISK_KINDS if self._world.has_disk else KINDS
        kind = self._chance.choices(list(kinds), list(kinds.values()))[0]
        if kind in PAGE_KINDS:
            return self._page_turn(lane, at_s, kind)
        paths = PATHS if kind in CHANGES else (*PATHS, *STILL_PATHS)
        step = self._step(lane, at_s, kind, (self._chance.choice(paths),))
        if kind in DISK_KINDS:
            return [step, self._step(lane, at_s, "get", step.names)]
        if kind in CHANGES and self._chance.random() < FOLLOWED_SHARE:
            return [step, self._step(lane, at_s, "read", step.names, near=step)]
        return [step]

    def _page_turn(self, lane: int, at_s: float, kind: str) -> list[Step]:
        if kind == "page_put" and self._chance.random() < 0.5:  # new keys, read at once
            count = self._chance.randint(1, BATCH_MAX)
            names = tuple(f"new{self._next + index}" for index in range(count))
            put = self._step(lane, at_s, kind, names)
            return [put, self._step(lane, at_s, "page_get", names)]
        count = self._chance.randint(1, BATCH_MAX) if kind != "page_drop" else 1
        step = self._step(lane, at_s, kind, tuple(self._chance.sample(KEYS, count)))
        return (
            [step, self._step(lane, at_s, "page_get", step.names)] if kind in DISK_KINDS else [step]
        )

    def _sweep(self, lane: int) -> list[Step]:
        """Everything once more, by one lane of every client."""
        if lane % LANES:
            return []
        at_s = self._world.pace.sweep_s
        paths = (*PATHS, *STILL_PATHS)
        steps = [self._step(lane, at_s, "get", (path,), is_patient=True) for path in paths]
        return [*steps, self._step(lane, at_s, "page_get", KEYS, is_patient=True)]

    def _step(
        self,
        lane: int,
        at_s: float,
        kind: str,
        names: tuple[str, ...],
        *,
        near: Step | None = None,
        is_patient: bool = False,
    ) -> Step:
        number, self._next = self._next, self._next + len(names)
        offset, length = self._range(kind) if near is None else self._range_near(near)
        if is_patient and kind == "put":
            length = max(length, LENGTHS[1])
        timeout_s = TIMEOUTS_S[0] if is_patient else self._chance.choice(TIMEOUTS_S)
        return Step(number, lane, at_s, kind, names, offset, length, timeout_s)

    def _range(self, kind: str) -> tuple[int, int]:
        length = self._chance.choice(LENGTHS) * self._world.value_scale
        if kind == "truncate":
            return 0, self._words(FILE_BYTES)
        if kind == "put" and self._chance.random() < EMPTY_SHARE:
            return 0, 0
        offset = self._words(FILE_BYTES) if kind in ("read", "write") else 0
        return (offset, 2 * length) if kind == "read" else (offset, length)

    def _range_near(self, step: Step) -> tuple[int, int]:
        before = 8 * self._chance.randint(0, 600)
        return max(0, step.offset - before), step.length + before + 4096

    def _words(self, end: int) -> int:
        """A place below ``end``, often at the border of a chunk."""
        if self._chance.random() < 0.3:
            return CHUNK_BYTES * self._chance.randrange(end // CHUNK_BYTES)
        return 8 * self._chance.randrange(end // 8)
