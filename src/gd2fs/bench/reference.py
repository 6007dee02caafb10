"""Reference: every conversation on one instance that keeps its caches; this makes the script.

A conversation runs alone, turn after turn, in a slot that nothing else touches in between. What
comes out is what both topologies are asked, and what their answers are compared with. Several
instances share the conversations, one core each: no conversation changes its instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gd2fs.bench.load import Asks, together
from gd2fs.bench.workload import USER_ENDS, Script, Turn, Workload, kept_tokens

Report = Callable[[Turn], None]


class AsksTexts(Asks, Protocol):
    """One that can also say which tokens a text is made of."""

    async def tokens_of(self, address: str, text: str, *, is_start: bool) -> list[int]: ...


async def make_script(
    texts: Sequence[Sequence[str]],
    workload: Workload,
    addresses: Sequence[str],
    asker: AsksTexts,
    report: Report,
) -> Script:
    """Play ``texts``, one session after the other on each instance of one slot."""
    script: Script = [[] for _ in texts]

    async def work(first: int, address: str) -> None:
        for session in range(first, len(texts), len(addresses)):
            script[session] = await _play(session, texts[session], workload, address, asker, report)

    await together(work(index, address) for index, address in enumerate(addresses))
    return script


async def _play(
    session: int,
    texts: Sequence[str],
    workload: Workload,
    address: str,
    asker: AsksTexts,
    report: Report,
) -> list[Turn]:
    turns: list[Turn] = []
    end = await asker.tokens_of(address, USER_ENDS, is_start=False)
    for index, text in enumerate(texts):
        tokens = await asker.tokens_of(address, text, is_start=index == 0)
        if (wanted := workload.tokens_of_turn(index)) is not None:
            tokens = tokens[: max(1, wanted - len(end))]
        before = turns[-1] if turns else None
        prompt = ([*before.prompt, *before.answer] if before else []) + tokens + end
        answer = await asker.ask(
            address, prompt, answer_tokens=workload.answer_tokens, session=f"session-{session}"
        )
        history = kept_tokens(before.prompt, before.answer) if before else 0
        turns.append(Turn(session, index, tuple(prompt), answer.tokens, history))
        report(turns[-1])
    return turns
