"""Kill: an engine is ended in the middle of a conversation, which goes on elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gd2fs.bench.asking import Asker
from gd2fs.bench.instances import Instance
from gd2fs.bench.load import Played, ask_turn
from gd2fs.bench.workload import Turn, Workload


@dataclass(frozen=True, slots=True)
class Kill:
    """What was killed, and what the conversation lost by it.

    Attributes:
        pid: Of the engine that had just answered.
        signal: That ended it.
        turn: Number of the turn that it had answered, from 1.
        history_tokens_recomputed: By the next turn, on another instance.
    """

    pid: int
    signal: str
    turn: int
    history_tokens_recomputed: int


async def play_and_kill(
    turns: Sequence[Turn],
    workload: Workload,
    instances: Sequence[Instance],
    asker: Asker,
    report: Callable[[Played], None],
) -> tuple[Kill, list[Played]]:
    """Play one conversation; after half of its turns the engine of the last one gets SIGKILL."""
    killed_after = (len(turns) - 1) // 2
    alive = list(range(len(instances)))
    played: list[Played] = []
    pid = 0
    for turn in turns:
        choice = workload.instance_of(turn.session, turn.index, alive)
        answer = await ask_turn(asker, instances[choice].address, turn)
        played.append(Played(turn, choice, answer))
        report(played[-1])
        if turn.index == killed_after:
            pid = instances[choice].child.pid
            instances[choice].child.kill()
            alive.remove(choice)
    recomputed = played[killed_after + 1].history_recomputed
    return Kill(pid, "SIGKILL", killed_after + 1, recomputed), played
