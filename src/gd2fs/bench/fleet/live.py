"""Live: conversations with servers that already run, which make their history as they go.

The first arm answers the users' texts; its answers become the history that the second arm is asked
with, so both get the same requests, whatever the second one answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gd2fs.bench.fleet.askers import OpenAiAsker
from gd2fs.bench.load import Played, together
from gd2fs.bench.workload import Script, Turn, Workload

Report = Callable[[Played], None]
Messages = list[dict[str, str]]


async def converse(
    texts: Sequence[Sequence[str]],
    workload: Workload,
    addresses: Sequence[str],
    asker: OpenAiAsker,
    report: Report,
) -> list[Played]:
    """Play ``texts``, each session's next turn after the answer to the one before.

    Raises:
        Unavailable: A server broke off; the other requests are given up.
    """
    ready = deque((session, 0, _message("user", each[0]), 0) for session, each in enumerate(texts))
    histories: list[Messages] = [[] for _ in texts]
    done: list[Played] = []

    async def work() -> None:
        while ready:
            session, index, message, history_tokens = ready.popleft()
            histories[session].append(message)
            prompt: Any = tuple(histories[session])
            choice = workload.instance_of(session, index, range(len(addresses)))
            answer = await asker.ask(
                addresses[choice],
                prompt,
                answer_tokens=workload.answer_tokens,
                session=f"session-{session}",
            )
            turn = Turn(session, index, prompt, answer.tokens, history_tokens)
            done.append(Played(turn, choice, answer))
            report(done[-1])
            if index + 1 < len(texts[session]):
                histories[session].append(_message("assistant", str(answer.tokens[0])))
                kept = answer.reused_tokens + answer.computed_tokens
                text = _message("user", texts[session][index + 1])
                ready.append((session, index + 1, text, kept))

    await together(work() for _ in range(min(workload.concurrency, len(texts))))
    return done


def script_of(played: Sequence[Played], sessions: int) -> Script:
    """What was played, session by session in the order of the turns."""
    script: Script = [[] for _ in range(sessions)]
    for each in sorted(played, key=lambda each: (each.turn.session, each.turn.index)):
        script[each.turn.session].append(each.turn)
    return script


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
