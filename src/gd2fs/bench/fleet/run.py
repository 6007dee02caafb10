"""Run: a reference, then both arms in turn, as often as asked, each with fresh processes.

The reference is one instance that keeps its caches; it makes the script and says what is right.
Arm A gives every instance a host cache of its own; arm B gives the same instances a store with as
many bytes, less what they need to stage pages in. Fresh processes flush every cache there is.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from gd2fs.bench.board import Board, Stage
from gd2fs.bench.children import Children
from gd2fs.bench.fleet.kinds import Kind, Store, warm
from gd2fs.bench.fleet.outcome import FleetOutcome
from gd2fs.bench.fleet.server import EngineServer
from gd2fs.bench.instances import CLUSTER, start_node
from gd2fs.bench.load import Played, play
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.measures import Arm, Pair, arm_of
from gd2fs.bench.reference import make_script
from gd2fs.bench.workload import Script, Workload, session_texts
from gd2fs.errors import InvalidRequest
from gd2fs.testing.cluster import free_ports

MIB = 1 << 20
INSTANCES_MAX = 64
RUNS_MAX = 99
HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class FleetSetup:
    """How both arms run.

    Attributes:
        instances: Engines of each arm.
        memory_mib: Host memory for caches of an arm: that of all instances and the store together.
        runs: Of both arms.
    """

    instances: int = 4
    memory_mib: int = 1024
    runs: int = 1

    def __post_init__(self) -> None:
        for name, most in (("instances", INSTANCES_MAX), ("runs", RUNS_MAX)):
            if not 1 <= getattr(self, name) <= most:
                raise InvalidRequest(
                    f"`--{name}` is {getattr(self, name)}, but must be 1 to {most}"
                )


def run_fleet(kind: Kind, workload: Workload, setup: FleetSetup, board: Board) -> FleetOutcome:
    """Run all stages. Call from the main thread.

    Raises:
        InvalidRequest: A setting is wrong, or does not fit the others.
        Unavailable: A server did not start, or broke off. The logs are kept then.
    """
    directory = Path(tempfile.mkdtemp(prefix="gd2fs-fleet-"))
    outcome = asyncio.run(FleetRun(kind, workload, setup, board, directory).run())
    shutil.rmtree(directory)
    return outcome


class FleetRun:
    """One run of all stages."""

    def __init__(
        self, kind: Kind, workload: Workload, setup: FleetSetup, board: Board, directory: Path
    ) -> None:
        self._kind = kind
        self._workload = workload
        self._setup = setup
        self._board = board
        self._directory = directory
        self._machine = machine_facts()
        self._share_bytes = setup.memory_mib * MIB // setup.instances
        self._node_bytes = setup.instances * (self._share_bytes - kind.staging_bytes)
        if self._node_bytes < MIB:
            least = setup.instances * (kind.staging_bytes // MIB + 2)
            raise InvalidRequest(
                f"`--memory` is {setup.memory_mib} MiB, less than {setup.instances} instances "
                "need to stage pages in",
                hint=f"pass `--memory {least}MiB` or more",
            )

    async def run(self) -> FleetOutcome:
        """All stages, one after the other."""
        script = await self._reference()
        pairs = []
        for number in range(1, self._setup.runs + 1):
            before, played_before = await self._private(script, number)
            after, played_after = await self._shared(script, number)
            pairs.append(Pair(before, after, played_before, played_after))
        workload = self._workload
        return FleetOutcome(
            title=f"{self._setup.instances} {self._kind.title} engines, {workload.sessions} "
            f"conversations of {workload.rounds} turns, random balancer",
            pairs=pairs,
            instances=self._setup.instances,
            engine=self._kind.facts(),
            machine=self._machine,
            workload=asdict(workload) | asdict(self._setup),
            has_reference=True,
        )

    async def _reference(self) -> Script:
        texts = session_texts(self._workload, self._workload.sessions)
        total = sum(map(len, texts))
        with (
            self._board.stage("reference, caches kept", total) as stage,
            self._servers("reference", 1, None, self._setup.memory_mib * MIB) as addresses,
        ):
            async with self._kind.asker() as asker:
                return await make_script(
                    texts,
                    self._workload,
                    addresses,
                    asker,
                    lambda turn: stage.step(f"{len(turn.prompt)} tokens"),
                )

    async def _private(self, script: Script, number: int) -> tuple[Arm, list[Played]]:
        with (
            self._stage("A: private caches", number) as stage,
            self._servers(f"a{number}", self._setup.instances, None, self._share_bytes) as servers,
        ):
            return await self._measure(script, servers, stage)

    async def _shared(self, script: Script, number: int) -> tuple[Arm, list[Played]]:
        with (
            self._stage("B: GD2FS", number) as stage,
            Children(Path(tempfile.mkdtemp(dir=self._directory))) as own,
        ):
            node = start_node(own, memory_mib=self._node_bytes // MIB)
            store = Store(node.facts["listen"].removeprefix("tcp://"), CLUSTER)
            staging = self._kind.staging_bytes
            with self._servers(f"b{number}", self._setup.instances, store, staging) as servers:
                return await self._measure(script, servers, stage)

    async def _measure(
        self, script: Script, addresses: list[str], stage: Stage
    ) -> tuple[Arm, list[Played]]:
        async with self._kind.asker() as asker:
            for address in addresses:  # the first request of a process compiles what it needs
                await warm(asker, address)
            played = await play(script, self._workload, addresses, asker, reporter(stage))
        room = self._setup.memory_mib * MIB
        return arm_of(played, cache_bytes=room, engine_counts={}), played

    def _stage(self, name: str, number: int) -> Stage:
        runs = self._setup.runs
        label = f"{name}, {number} of {runs}" if runs > 1 else name
        return self._board.stage(label, self._workload.sessions * self._workload.rounds)

    @contextmanager
    def _servers(
        self, name: str, count: int, store: Store | None, host_bytes: int
    ) -> Iterator[list[str]]:
        """Servers that are ready; their base URLs."""
        folder = Path(tempfile.mkdtemp(dir=self._directory))
        servers = []
        for index, port in enumerate(free_ports(count)):
            launch = self._kind.launch(port=port, store=store, host_bytes=host_bytes)
            servers.append(
                EngineServer(
                    name=f"{name}-{index}",
                    command=launch.command,
                    url=f"http://{HOST}:{port}",
                    folder=folder,
                    variables=launch.variables,
                )
            )
        try:
            for server in servers:
                server.launch()
            for server in servers:
                server.wait_healthy()
            yield [server.url for server in servers]
        finally:
            for server in servers:
                server.terminate()
            for server in servers:
                server.stop()


def reporter(stage: Stage) -> Callable[[Played], None]:
    """Moves a bar on, with the hit rate by now."""
    totals: Counter[str] = Counter()

    def report(played: Played) -> None:
        totals["found"] += played.answer.reused_tokens
        totals["asked"] += played.answer.reused_tokens + played.answer.computed_tokens
        stage.step(f"{totals['found'] / totals['asked']:.1%} of prompts found cached")

    return report
