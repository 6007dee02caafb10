"""Kill: an engine or a node is ended in the middle of a conversation, which goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gd2fs.bench.instances import Instance
from gd2fs.bench.llama_asker import LlamaAsker
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


@dataclass(frozen=True, slots=True)
class NodeKill:
    """As ``Kill``, of a node of the store.

    Attributes:
        node: Its name: the one that held most of the conversation.
        pid: Of it.
        signal: That ended it.
        turn: Number of the turn after which it was killed, from 1.
        nodes: How many there were.
        replicas: How many of them had a copy of everything.
        history_tokens_recomputed: By all turns after that.
    """

    node: str
    pid: int
    signal: str
    turn: int
    nodes: int
    replicas: int
    history_tokens_recomputed: int


async def play_and_kill(
    turns: Sequence[Turn],
    workload: Workload,
    instances: Sequence[Instance],
    asker: LlamaAsker,
    report: Callable[[Played], None],
) -> tuple[Kill, list[Played]]:
    """Play one conversation; after half of its turns the engine of the last one gets SIGKILL."""
    alive = list(range(len(instances)))

    def end_engine(choice: int) -> int:
        pid = instances[choice].child.pid
        instances[choice].child.kill()
        alive.remove(choice)
        return pid

    pid, played = await play_and_break(turns, workload, instances, alive, asker, report, end_engine)
    after = middle_of(turns) + 1
    return Kill(pid, "SIGKILL", after, played[after].history_recomputed), played


async def play_and_break(
    turns: Sequence[Turn],
    workload: Workload,
    instances: Sequence[Instance],
    alive: Sequence[int],
    asker: LlamaAsker,
    report: Callable[[Played], None],
    end_something: Callable[[int], int],
) -> tuple[int, list[Played]]:
    """Play one conversation on those ``alive``, and end something after half of its turns.

    Args:
        end_something: Gets the instance of the last turn, and returns the pid of what it ended.
    """
    played: list[Played] = []
    pid = 0
    for turn in turns:
        choice = workload.instance_of(turn.session, turn.index, list(alive))
        answer = await ask_turn(asker, instances[choice].address, turn)
        played.append(Played(turn, choice, answer))
        report(played[-1])
        if turn.index == middle_of(turns):
            pid = end_something(choice)
    return pid, played


def middle_of(turns: Sequence[Turn]) -> int:
    """Index of the turn after which something is ended."""
    return (len(turns) - 1) // 2
