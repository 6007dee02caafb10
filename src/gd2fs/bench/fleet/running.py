"""Running: both arms run already somewhere, and are asked over OpenAI's API.

Nothing can be flushed over that API, so every run has conversations that no cache has seen. Arm A's
answers are the history that both are asked with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from gd2fs.bench.board import Board
from gd2fs.bench.fleet.askers import OpenAiAsker
from gd2fs.bench.fleet.live import converse, script_of
from gd2fs.bench.fleet.outcome import FleetOutcome
from gd2fs.bench.fleet.run import RUNS_MAX, reporter
from gd2fs.bench.load import Played, play
from gd2fs.bench.machine import machine_facts
from gd2fs.bench.measures import Arm, Pair, arm_of
from gd2fs.bench.workload import Workload, session_texts
from gd2fs.errors import InvalidRequest

WARM_TEXT = "Are you there?"


@dataclass(frozen=True, slots=True)
class Arms:
    """Servers that run.

    Attributes:
        before: Base URLs of those without GD2FS.
        after: And of those with it.
        model: As they call it; empty: the only one that they have.
        key: Sent as a bearer token; empty: none is.
    """

    before: Sequence[str]
    after: Sequence[str]
    model: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        if not self.before or not self.after:
            raise InvalidRequest(
                "one arm has no servers", hint="pass `--a URL` and `--b URL`, each once or more"
            )
        for url in (*self.before, *self.after):
            if not url.startswith(("http://", "https://")):
                raise InvalidRequest(f"`{url}` is no URL", hint="give `http://HOST:PORT`")


async def run_running(arms: Arms, workload: Workload, board: Board, *, runs: int) -> FleetOutcome:
    """Play ``runs`` times.

    Raises:
        InvalidRequest: The servers do not have the same model.
        Unavailable: One of them broke off.
    """
    if not 1 <= runs <= RUNS_MAX:
        raise InvalidRequest(f"`--runs` is {runs}, but must be 1 to {RUNS_MAX}")
    before = [url.rstrip("/").removesuffix("/v1") for url in arms.before]
    after = [url.rstrip("/").removesuffix("/v1") for url in arms.after]
    machine = machine_facts()
    model = arms.model or await _only_model([*before, *after], arms.key)
    pairs = []
    async with OpenAiAsker(model=model, tokens_max=workload.answer_tokens, key=arms.key) as asker:
        await _warm([*before, *after], asker)
        for number in range(runs):
            pairs.append(await _play_both(before, after, _of_run(workload, number), asker, board))
    return FleetOutcome(
        title=f"{model}, {len(before)} servers against {len(after)}, {workload.sessions} "
        f"conversations of {workload.rounds} turns, random balancer",
        pairs=pairs,
        instances=len(after),
        engine={"name": "running", "model": model, "a": before, "b": after},
        machine=machine,
        workload=asdict(workload) | {"runs": runs},
        has_reference=False,
        remarks=[
            "tokens per text event are not known: times between events are shown as tokens'",
            *_told_nothing("A", [each for pair in pairs for each in pair.played_before]),
            *_told_nothing("B", [each for pair in pairs for each in pair.played_after]),
        ],
    )


async def _warm(addresses: Sequence[str], asker: OpenAiAsker) -> None:
    """Have a request answered by each: the first one of a process loads and compiles."""
    message: Any = ({"role": "user", "content": WARM_TEXT},)
    for address in addresses:
        await asker.ask(address, message, answer_tokens=1, session="warm")


def _told_nothing(arm: str, played: Sequence[Played]) -> list[str]:
    """Later turns always find something, unless servers keep it to themselves."""
    if any(each.answer.reused_tokens for each in played):
        return []
    return [
        f"no answer of {arm} says that any of its prompt was cached: its servers keep nothing, or "
        "are to be started with `--enable-cache-report` (SGLang) or "
        "`--enable-prompt-tokens-details` (vLLM)"
    ]


def _of_run(workload: Workload, number: int) -> Workload:
    """The workload of run ``number``: other texts of the same lengths."""
    return replace(workload, seed=workload.seed + number)


async def _play_both(
    before: list[str], after: list[str], workload: Workload, asker: OpenAiAsker, board: Board
) -> Pair:
    texts = session_texts(workload, workload.sessions)
    total = sum(map(len, texts))
    with board.stage("A", total) as stage:
        first = await converse(texts, workload, before, asker, reporter(stage))
    script = script_of(first, len(texts))
    with board.stage("B: GD2FS", total) as stage:
        second = await play(script, workload, after, asker, reporter(stage))
    return Pair(_arm(first), _arm(second), first, second)


def _arm(played: list[Played]) -> Arm:
    return arm_of(played, cache_bytes=0, engine_counts={})


async def _only_model(addresses: Sequence[str], key: str) -> str:
    async with OpenAiAsker(model="", tokens_max=1, key=key) as asker:
        found = {name for address in addresses for name in await asker.models(address)}
    if len(found) != 1:
        raise InvalidRequest(
            f"the servers have {len(found)} models: {', '.join(sorted(found)) or 'none'}",
            hint="pass the name of one as `--model`",
        )
    return found.pop()
