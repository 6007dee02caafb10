"""Topology: the same requests to engines with private caches, then to engines with GD2FS.

Three stages, each with processes of its own: the reference makes the script; topology A gives every
engine its private caches; topology B gives the same engines a store with as many bytes as all
the private caches of A together.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gd2fs.bench.board import Board, Stage
from gd2fs.bench.children import Children
from gd2fs.bench.instances import (
    MIB,
    Instance,
    Setup,
    private_options,
    start_instances,
    start_node,
    store_options,
)
from gd2fs.bench.kill import Kill, NodeKill, play_and_kill
from gd2fs.bench.llama_asker import LlamaAsker
from gd2fs.bench.load import Played, play
from gd2fs.bench.machine import machine_facts, usable_cores
from gd2fs.bench.measures import Arm, Pair, agreement, arm_of, beginnings_of, ratios_of, requests_of
from gd2fs.bench.node_kill import (
    check_replicated_store,
    options_of,
    play_and_kill_node,
    replicated_store,
)
from gd2fs.bench.reference import make_script
from gd2fs.bench.workload import USER_ENDS, Script, Workload, session_texts
from gd2fs.engines.llamacpp.bounce import bounce_root, remove_left_over
from gd2fs.engines.llamacpp.gguf import ModelShape, read_shape
from gd2fs.engines.llamacpp.native import engine_version
from gd2fs.errors import Unavailable

CTX_STEP = 256  # llama.cpp rounds a slot's tokens up to it
BYTES_PER_TOKEN_MIN = 2  # of texts from a file, to size the reference's slot
KILL_ROUNDS_MAX = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of a run."""

    workload: Workload
    setup: Setup
    machine: dict[str, Any]
    engine: dict[str, Any]
    before: Arm
    after: Arm
    played_before: list[Played]
    played_after: list[Played]
    kill: Kill | None
    disagreeing: int
    node_kill: NodeKill | None = None

    @property
    def pair(self) -> Pair:
        """Both topologies."""
        return Pair(self.before, self.after, self.played_before, self.played_after)

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        result = {
            "arms": {"A": asdict(self.before), "B": asdict(self.after)},
            "ratios": ratios_of(self.before, self.after),
            "texts_agree": self.disagreeing == 0,
            "texts_agree_arms": agreement(self.played_before, self.played_after),
            "workload": asdict(self.workload) | asdict(self.setup),
            "engine": self.engine,
            "machine": self.machine,
            "requests": {
                "A": requests_of(self.played_before),
                "B": requests_of(self.played_after),
            },
            "beginnings": beginnings_of(self.played_before),
        }
        kills = {"kill": self.kill, "node_kill": self.node_kill}
        return result | {name: asdict(kill) for name, kill in kills.items() if kill}


@dataclass(frozen=True, slots=True)
class Kills:
    """What is ended with SIGKILL, each in a conversation of its own."""

    engine: bool = False
    node: bool = False

    @property
    def count(self) -> int:
        """Conversations that they need."""
        return self.engine + self.node


def run_topology(workload: Workload, setup: Setup, board: Board, *, kills: Kills) -> Outcome:
    """Run all stages. Call from the main thread.

    Raises:
        InvalidRequest: A setting is wrong, or does not fit the others.
        Unavailable: A process did not start, or broke off.
    """
    if kills.node:
        check_replicated_store()
    with tempfile.TemporaryDirectory(prefix="gd2fs-demo-") as directory:
        return asyncio.run(Run(workload, setup, board, Path(directory)).run(kills))


class Run:
    """One run of all stages."""

    def __init__(self, workload: Workload, setup: Setup, board: Board, directory: Path) -> None:
        self._workload = workload
        self._setup = setup
        self._board = board
        self._directory = directory
        self._machine = machine_facts()
        self._shape: ModelShape = read_shape(setup.model)

    async def run(self, kills: Kills) -> Outcome:
        """All stages, one after the other."""
        self._private_cache_mib(self._reference_ctx())  # refuses what cannot fit before long work
        script = await self._reference(kills)
        ctx = _round_up(max(len(turn.prompt) + len(turn.answer) for s in script for turn in s) + 1)
        sessions = script[: self._workload.sessions]
        before, played_before = await self._private(sessions, ctx)
        rest = script[self._workload.sessions :]
        of_engine, of_node = rest[: kills.engine], rest[kills.engine :]
        after, played_after, kill, more = await self._shared(sessions, of_engine, ctx)
        node_kill, last = await self._shared_by_several(of_node, ctx)
        return Outcome(
            workload=self._workload,
            setup=self._setup,
            machine=self._machine,
            engine=self._engine_facts(ctx),
            before=before,
            after=after,
            played_before=played_before,
            played_after=played_after,
            kill=kill,
            disagreeing=sum(not each.agrees for each in played_after + more + last),
            node_kill=node_kill,
        )

    async def _reference(self, kills: Kills) -> Script:
        count = self._workload.sessions
        texts = session_texts(self._workload, count + kills.count)
        texts[count:] = [each[:KILL_ROUNDS_MAX] for each in texts[count:]]
        instances = min(usable_cores() // self._setup.threads or 1, self._setup.instances)
        total = sum(map(len, texts))
        with self._board.stage("reference, caches kept", total) as stage, self._children() as own:
            started = start_instances(
                own,
                self._setup,
                count=instances,
                slots=1,
                ctx=self._reference_ctx(),
                options=private_options(0),
            )
            async with LlamaAsker() as asker:
                return await make_script(
                    texts,
                    self._workload,
                    [each.address for each in started],
                    asker,
                    lambda turn: stage.step(f"{len(turn.prompt)} tokens"),
                )

    async def _private(self, script: Script, ctx: int) -> tuple[Arm, list[Played]]:
        total = sum(map(len, script))
        with self._board.stage("A: private caches", total) as stage, self._children() as own:
            instances = self._start(own, ctx, private_options(self._private_cache_mib(ctx)))
            async with LlamaAsker() as asker:
                return await self._measure(script, instances, asker, stage)

    async def _shared(
        self, sessions: Script, rest: Script, ctx: int
    ) -> tuple[Arm, list[Played], Kill | None, list[Played]]:
        total = sum(map(len, sessions))
        with self._children() as own:
            with self._board.stage("B: GD2FS", total) as stage:
                node = start_node(own, memory_mib=self._setup.memory_mib)
                instances = self._start(own, ctx, store_options(node))
                async with LlamaAsker() as asker:
                    arm, played = await self._measure(sessions, instances, asker, stage)
            if not rest:
                return arm, played, None, []
            with self._board.stage("B: an engine is killed", len(rest[0])) as stage:
                async with LlamaAsker() as asker:
                    kill, more = await play_and_kill(
                        rest[0], self._workload, instances, asker, _reporter(stage)
                    )
                    return arm, played, kill, more

    async def _shared_by_several(
        self, rest: Script, ctx: int
    ) -> tuple[NodeKill | None, list[Played]]:
        if not rest:
            return None, []
        with (
            self._children() as own,
            self._board.stage("B: a node is killed", len(rest[0])) as stage,
        ):
            folder = Path(tempfile.mkdtemp(dir=self._directory))
            with replicated_store(folder, memory_mib=self._setup.memory_mib) as nodes:
                instances = self._start(own, ctx, options_of(nodes))
                async with LlamaAsker() as asker:
                    return await play_and_kill_node(
                        rest[0], self._workload, instances, nodes, asker, _reporter(stage)
                    )

    async def _measure(
        self, script: Script, instances: list[Instance], asker: LlamaAsker, stage: Stage
    ) -> tuple[Arm, list[Played]]:
        addresses = [each.address for each in instances]
        played = await play(script, self._workload, addresses, asker, _reporter(stage))
        counts: Counter[str] = Counter()
        for address in addresses:
            found = await asker.counts_of(address)
            counts.update({name: value for name, value in found.items() if _is_count(name, value)})
        room = self._setup.memory_mib * MIB
        return arm_of(played, cache_bytes=room, engine_counts=dict(counts)), played

    def _start(self, children: Children, ctx: int, options: list[str]) -> list[Instance]:
        setup = self._setup
        return start_instances(
            children, setup, count=setup.instances, slots=setup.slots, ctx=ctx, options=options
        )

    @contextmanager
    def _children(self) -> Iterator[Children]:
        try:
            with Children(Path(tempfile.mkdtemp(dir=self._directory))) as own:
                try:
                    yield own
                except Unavailable as error:
                    raise Unavailable(str(error), hint=own.last_words() or error.hint) from error
        finally:
            remove_left_over(bounce_root())  # of engines that were killed

    def _private_cache_mib(self, ctx: int) -> int:
        return self._setup.cache_ram_mib(ctx=ctx, kv_bytes_per_token=self._shape.kv_bytes_per_token)

    def _reference_ctx(self) -> int:
        workload = self._workload
        if workload.questions is None:
            later = (workload.rounds - 1) * workload.follow_tokens
            tokens = workload.first_tokens + later + workload.rounds * workload.answer_tokens
            return _round_up(tokens + 2)
        texts = session_texts(workload, workload.sessions)
        return _round_up(
            max(
                sum(
                    len((text + USER_ENDS).encode()) // BYTES_PER_TOKEN_MIN + workload.answer_tokens
                    for text in session
                )
                for session in texts
            )
        )

    def _engine_facts(self, ctx: int) -> dict[str, Any]:
        return {
            "name": "llamacpp",
            "version": engine_version(),
            "model": self._shape.name or self._setup.model,
            "ctx": ctx,
            "kv_bytes_per_token": self._shape.kv_bytes_per_token,
            "private_prompt_cache_mib": self._private_cache_mib(ctx),
        }


def _reporter(stage: Stage) -> Callable[[Played], None]:
    totals: Counter[str] = Counter()

    def report(played: Played) -> None:
        totals["history"] += played.turn.history_tokens
        totals["recomputed"] += played.history_recomputed
        history = totals["history"]
        note = f"hit rate {1 - totals['recomputed'] / history:.1%}" if history else "first turns"
        stage.step(note)

    return report


def _is_count(name: str, value: object) -> bool:
    return isinstance(value, int) and name != "slots"


def _round_up(tokens: int) -> int:
    return -(-tokens // CTX_STEP) * CTX_STEP
