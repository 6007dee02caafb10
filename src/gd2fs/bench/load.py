"""Load: plays a script to instances, a fixed number of requests at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from gd2fs.bench.asking import Answer
from gd2fs.bench.workload import Script, Turn, Workload


@dataclass(frozen=True, slots=True)
class Played:
    """One turn of the script as an instance answered it."""

    turn: Turn
    instance: int
    answer: Answer

    @property
    def history_recomputed(self) -> int:
        """Tokens of the turn's history that the instance had to compute."""
        return max(0, self.turn.history_tokens - self.answer.reused_tokens)

    @property
    def agrees(self) -> bool:
        """Whether the answer is the reference's, token for token."""
        return self.answer.tokens == self.turn.answer


class Asks(Protocol):
    """Has one turn answered by the instance at an address."""

    async def ask(
        self, address: str, prompt: Any, *, answer_tokens: int, session: str
    ) -> Answer: ...


Report = Callable[[Played], None]


async def play(
    script: Script, workload: Workload, addresses: list[str], asker: Asks, report: Report
) -> list[Played]:
    """Play every turn of ``script``; what came back, in the order of the ends.

    Sessions wait in a queue; each worker takes the first one, has its next turn answered by an
    instance chosen at random, and puts the session back at the end.

    Args:
        script: The turns.
        workload: Names the concurrency and the balancer's choices.
        addresses: Of the instances.
        asker: Sends the requests.
        report: Called after every turn.

    Raises:
        Unavailable: An instance broke off; the other requests are given up.
    """
    ready = deque(deque(turns) for turns in script)
    done: list[Played] = []

    async def work() -> None:
        while ready:
            turns = ready.popleft()
            turn = turns.popleft()
            choice = workload.instance_of(turn.session, turn.index, range(len(addresses)))
            answer = await ask_turn(asker, addresses[choice], turn)
            done.append(Played(turn, choice, answer))
            report(done[-1])
            if turns:
                ready.append(turns)

    await together(work() for _ in range(min(workload.concurrency, len(script))))
    return done


async def ask_turn(asker: Asks, address: str, turn: Turn) -> Answer:
    """Have one turn of the script answered by the instance at ``address``."""
    return await asker.ask(
        address,
        turn.prompt,
        answer_tokens=len(turn.answer),
        session=f"session-{turn.session}",
    )


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run several until all are done; the first error ends the others and is raised as it is."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
