"""Workload: conversations as texts from a seeded generator or a file, and their script of tokens.

The generator writes long first prompts (a report to read, another one in every session) and
short questions after them. A script is what a reference run made of the texts: for every turn the
tokens of its whole prompt, earlier answers included, and of its answer. Both topologies are asked
with the same script, so they get the same requests whatever they answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gd2fs.errors import InvalidRequest

SESSIONS_MAX = 10_000
ROUNDS_MAX = 1_000
TOKENS_MAX = 1 << 20
CONCURRENCY_MAX = 1_024
QUESTIONS_MAX = 100_000
USER_BEGINS, USER_ENDS = "\nUser: ", "\nAssistant:"


@dataclass(frozen=True, slots=True)
class Workload:
    """How much is asked.

    Attributes:
        sessions: Conversations.
        rounds: Turns of each.
        first_tokens: Tokens of a first prompt.
        follow_tokens: New tokens of each later prompt.
        answer_tokens: Tokens of each answer.
        concurrency: Requests under way at the same time.
        seed: Of the texts, and of the balancer's choices.
        questions: A file of JSON lines with ``turns``; its texts are used, as long as they are.
    """

    sessions: int = 6
    rounds: int = 8
    first_tokens: int = 512
    follow_tokens: int = 32
    answer_tokens: int = 16
    concurrency: int = 4
    seed: int = 1
    questions: str | None = None

    def __post_init__(self) -> None:
        _check_range("sessions", self.sessions, 1, SESSIONS_MAX)
        _check_range("rounds", self.rounds, 2, ROUNDS_MAX)
        _check_range("first_tokens", self.first_tokens, 1, TOKENS_MAX)
        _check_range("follow_tokens", self.follow_tokens, 1, TOKENS_MAX)
        _check_range("answer_tokens", self.answer_tokens, 2, TOKENS_MAX)
        _check_range("concurrency", self.concurrency, 1, CONCURRENCY_MAX)

    def tokens_of_turn(self, index: int) -> int | None:
        """New tokens of the prompt of turn ``index``; None: as many as its text has."""
        if self.questions is not None:
            return None
        return self.follow_tokens if index else self.first_tokens

    def instance_of(self, session: int, turn: int, instances: Sequence[int]) -> int:
        """The balancer: plain random choice, the same one in every run with the same seed."""
        return random.Random(f"{self.seed}/{session}/{turn}").choice(instances)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a script: tokens of its whole prompt, and of the reference's answer."""

    session: int
    index: int
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    history_tokens: int

    @property
    def new_tokens(self) -> int:
        """Tokens of the prompt that no earlier turn has computed."""
        return len(self.prompt) - self.history_tokens


Script = list[list[Turn]]  # [session][turn]


def kept_tokens(prompt: Sequence[int], answer: Sequence[int]) -> int:
    """How many tokens a KV cache can hold after a turn.

    The last token of an answer was chosen, but never put through the model: the next turn has to
    compute it, wherever it runs.
    """
    return len(prompt) + len(answer) - 1


def session_texts(workload: Workload, count: int) -> list[list[str]]:
    """The users' texts of ``count`` sessions, turn by turn, still without ``USER_ENDS``.

    Generated ones are longer than needed: their tokens are cut to length.

    Raises:
        InvalidRequest: The file of questions cannot be read, or has too few.
    """
    if workload.questions is not None:
        return _questions(Path(workload.questions), count, workload.rounds)
    return [_generated(workload, session) for session in range(count)]


# ---- generated texts -----------------------------------------------------------------------


def _listed(text: str) -> list[str]:
    return [" ".join(words.split()) for words in text.split(",")]


_PLACES = _listed(
    """
    harbour, valley, station, market, quarry, garden, library, mill, bridge, archive
    """
)
_PEOPLE = _listed(
    """
    keeper, clerk, surveyor, captain, gardener, engineer, teacher, baker, doctor, pilot
    """
)
_THINGS = _listed(
    """
    ledger, map, engine, lantern, letter, crate, clock, ladder, signal, barrel
    """
)
_DEEDS = _listed(
    """
    measured, moved, repaired, counted, painted, sold, found, marked, weighed, returned
    """
)
_TIMES = _listed(
    """
    at dawn, before noon, after the storm, in the second week, late in autumn, by night
    """
)
_QUESTIONS = (
    "Which {thing} was mentioned near the {place}, and why did it matter?",
    "What did the {person} do with the {thing}?",
    "Summarise what happened at the {place} {time}.",
    "If the {thing} had been lost, what would the {person} have written?",
    "Compare the {place} with the one in the next report of the {person}.",
)


def _generated(workload: Workload, session: int) -> list[str]:
    source = random.Random(f"{workload.seed}/text/{session}")
    texts = [_question(source) + f" Report {session + 1}:" + _words(source, workload.first_tokens)]
    for _ in range(1, workload.rounds):
        texts.append(_question(source) + _words(source, workload.follow_tokens))
    return [USER_BEGINS + text for text in texts]


def _words(source: random.Random, tokens: int) -> str:
    """More than ``tokens`` tokens of text: every word is one at least."""
    text = ""
    while text.count(" ") <= tokens:
        text += " " + _sentence(source)
    return text


def _sentence(source: random.Random) -> str:
    number = source.randrange(2, 990)
    return (
        f"{source.choice(_TIMES).capitalize()} the {source.choice(_PEOPLE)} "
        f"{source.choice(_DEEDS)} the {source.choice(_THINGS)} number {number} "
        f"and {source.choice(_DEEDS)} a {source.choice(_THINGS)} at the {source.choice(_PLACES)}."
    )


def _question(source: random.Random) -> str:
    return source.choice(_QUESTIONS).format(
        place=source.choice(_PLACES),
        person=source.choice(_PEOPLE),
        thing=source.choice(_THINGS),
        time=source.choice(_TIMES),
    )


# ---- texts from a file ---------------------------------------------------------------------


def _questions(path: Path, count: int, rounds: int) -> list[list[str]]:
    found: list[list[str]] = []
    for number, line in enumerate(_lines(path), 1):
        if number > QUESTIONS_MAX or len(found) == count:
            break
        turns = _turns_of(line, f"{path}:{number}")[:rounds]
        if len(turns) > 1:
            found.append([USER_BEGINS + text for text in turns])
    if len(found) < count:
        raise InvalidRequest(
            f"{path} has {len(found)} conversations of two turns or more, but {count} are needed",
            hint="pass fewer `--sessions`",
        )
    return found


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read the questions in {path}: {error}") from error
    return [line for line in text.splitlines() if line.strip()]


def _turns_of(line: str, where: str) -> list[str]:
    try:
        turns = json.loads(line)["turns"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{where} is not a JSON object with `turns`") from error
    if not isinstance(turns, list) or not all(isinstance(text, str) and text for text in turns):
        raise InvalidRequest(f"{where}: `turns` must be a list of texts")
    return turns


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        option = "--" + name.replace("_", "-")
        raise InvalidRequest(f"`{option}` is {value}, but must be {least} to {most}")
