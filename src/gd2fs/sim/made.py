"""Made: traces from a seeded generator: `made:requests=100000,seed=7,rate=40`.

Conversations begin at random, have a geometric number of turns, and pauses between them that are
exponential. Lengths are log-normal. Each begins with one of a few system prompts, some much more
often than others. Only full blocks are counted, as stores keep no others.
"""

from __future__ import annotations

import math
import resource
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gd2fs.errors import InvalidRequest
from gd2fs.free_memory import free_memory
from gd2fs.sim.trace import BLOCKS_MAX, Floats, Ints, Trace, plain
from gd2fs.sizes import format_bytes

PREFIX = "made:"
LENGTH_TIMES_MAX = 20  # of the mean
PART = 500_000  # requests whose blocks are made at once
DAY_S = 86_400.0
REQUEST_BYTES, BLOCK_BYTES = 141, 4  # while a trace is made, as measured
PART_BLOCK_BYTES = 44  # more, of a block in the part that is being made


def is_made(name: str) -> bool:
    """Does this name of a trace say how it is made? Else it is a file's."""
    return name.startswith(PREFIX) or name == PREFIX.rstrip(":")


@dataclass(frozen=True, slots=True)
class Made:
    """What users do.

    Attributes:
        requests: How many turns, of all conversations.
        seed: The same one makes the same trace.
        rate: Requests in a second, on the mean, once as many conversations end as begin.
        turns: Of a conversation, on the mean.
        first, follow, answer: New tokens of a first prompt, of a later one, of an answer; means.
        shared: Tokens of a system prompt.
        prompts: How many system prompts there are.
        pause: Seconds from an answer's end to the next turn, mean.
        decode: Seconds that a token of an answer takes, for the time of the next turn.
        block: Tokens of a block.
        longest: Tokens of a prompt and its answer at most: a conversation ends there.
        spread: Of lengths: the standard deviation of their logarithm. 0: all lengths are the
            means, and all conversations have as many turns.
        tide: How much more than the mean is asked at the peak of a day: 0 to 1.
    """

    requests: int = 10_000
    seed: int = 1
    rate: float = 10.0
    turns: float = 4.0
    first: float = 1500.0
    follow: float = 300.0
    answer: float = 300.0
    shared: int = 1000
    prompts: int = 16
    pause: float = 60.0
    decode: float = 0.02
    block: int = 256
    longest: int = 131_072
    spread: float = 0.8
    tide: float = 0.0

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:  # nor NaN
                raise InvalidRequest(
                    f"`{name}` of a made trace is {value}",
                    hint=f"give {plain(least)} to {plain(most)}",
                )


RANGES: dict[str, tuple[float, float]] = {
    "requests": (1, 1_000_000_000),
    "seed": (0, 2**63),
    "rate": (1e-6, 1e9),
    "turns": (1, 10_000),
    "first": (1, 1e7),
    "follow": (1, 1e7),
    "answer": (1, 1e7),
    "shared": (0, 1e7),
    "prompts": (1, 1e6),
    "pause": (0, 1e7),
    "decode": (0, 100),
    "block": (1, 1 << 20),
    "longest": (1, 1 << 28),
    "spread": (0, 3),
    "tide": (0, 1),
}


def made_of(text: str) -> Made:
    """Of ``made:requests=1000,seed=7``, of which every part may be left out. InvalidRequest."""
    kinds: dict[str, type] = {each.name: _KINDS[str(each.type)] for each in fields(Made)}
    values: dict[str, Any] = {}
    for part in filter(None, text.removeprefix(PREFIX).split(",")):
        name, _, value = part.partition("=")
        try:
            values[name.strip()] = kinds[name.strip()](value)
        except (KeyError, ValueError) as error:
            raise InvalidRequest(
                f"`{part}` says nothing of a made trace",
                hint=f"give {', '.join(kinds)}, as in `made:requests=1000,seed=7`",
            ) from error
    return Made(**values)


_KINDS: dict[str, type] = {"int": int, "float": float}


def make_trace(made: Made) -> Trace:
    """The trace: the same one for the same ``made``.

    Raises:
        InvalidRequest: It has too many blocks, or needs more memory than there is.
    """
    _check_memory(made, made.requests * REQUEST_BYTES)
    source = np.random.default_rng(made.seed)
    turns = _turns(made, source)
    sessions = np.repeat(np.arange(len(turns)), turns)
    is_first = np.concatenate(([True], sessions[1:] != sessions[:-1]))
    begins = np.flatnonzero(is_first)
    prompt = np.where(
        is_first,
        _lengths(made, source, made.first, len(sessions)),
        _lengths(made, source, made.follow, len(sessions)),
    )
    answer = _lengths(made, source, made.answer, len(sessions))
    before = _sum_before(prompt + answer, begins, turns)
    inputs = np.minimum(made.shared + before + prompt, made.longest - 1)
    answer = np.minimum(answer, made.longest - inputs)
    arrives = _arrivals(made, source, turns, begins, answer)
    order = np.argsort(arrives, kind="stable")
    groups = _groups(made, source, len(turns))
    blocks = _Blocks(made, inputs, answer, sessions, groups, begins, turns)
    _check_memory(made, made.requests * REQUEST_BYTES + blocks.bytes)
    first_block, flat = blocks.in_order(order)
    return Trace(
        name=PREFIX + ",".join(f"{f.name}={getattr(made, f.name)}" for f in fields(made)),
        block_tokens=made.block,
        block_count=blocks.count,
        arrives_s=arrives[order] - arrives[order[0]],
        input_tokens=inputs[order].astype(np.uint32),
        output_tokens=answer[order].astype(np.uint32),
        first_block=first_block,
        prompt_blocks=(inputs[order] // made.block).astype(np.uint32),
        blocks=flat,
        session=sessions[order].astype(np.uint32),
    )


def _check_memory(made: Made, needed: int) -> None:
    left = _memory_left()
    if needed > left:
        raise InvalidRequest(
            f"a made trace of {made.requests:,} requests needs {format_bytes(needed)} of memory, "
            f"of which {format_bytes(left)} are free",
            hint="make fewer `requests`, or larger blocks (`block`)",
        )


def _memory_left() -> int:
    """Bytes that this process may still have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    left = limit if limit != resource.RLIM_INFINITY else 1 << 62
    free = free_memory()
    return left if free is None else min(left, free)


def _turns(made: Made, source: np.random.Generator) -> Ints:
    """Of each conversation, so that they come to exactly as many requests as there shall be."""
    count = int(made.requests / made.turns * 1.05) + 64
    turns = _drawn_turns(made, source, count)
    while turns.sum() < made.requests:
        turns = np.concatenate((turns, _drawn_turns(made, source, count)))
    ends = np.cumsum(turns)
    last = int(np.searchsorted(ends, made.requests))
    turns = turns[: last + 1]
    turns[last] -= ends[last] - made.requests
    return turns


def _drawn_turns(made: Made, source: np.random.Generator, count: int) -> Ints:
    if made.spread == 0:
        return np.full(count, round(made.turns), np.int64)
    return source.geometric(1 / made.turns, count).astype(np.int64)


def _lengths(made: Made, source: np.random.Generator, mean: float, count: int) -> Ints:
    """Log-normal, so that the mean is what it shall be."""
    drawn = source.lognormal(math.log(mean) - made.spread**2 / 2, made.spread, count)
    return np.clip(np.rint(drawn), 1, LENGTH_TIMES_MAX * mean).astype(np.int64)


def _sum_before(values: Ints, begins: Ints, turns: Ints) -> Ints:
    """Of each turn, the sum over the earlier ones of its conversation."""
    sums = np.cumsum(values) - values
    return sums - np.repeat(sums[begins], turns)


def _arrivals(
    made: Made, source: np.random.Generator, turns: Ints, begins: Ints, answer: Ints
) -> Floats:
    span_s = made.requests / made.rate
    starts = np.sort(_tidal(made, source.random(len(turns)) * span_s, span_s))
    pauses = source.exponential(made.pause, len(answer)) + made.decode * answer
    passed = np.cumsum(pauses) - pauses
    return np.repeat(starts, turns) + passed - np.repeat(passed[begins], turns)


def _tidal(made: Made, uniform: Floats, span_s: float) -> Floats:
    """Even times moved to where more is asked: most at noon, least at midnight."""
    if made.tide == 0:
        return uniform
    grid = np.linspace(0, span_s, 100_001)
    turn = 2 * np.pi / DAY_S
    done = grid - made.tide / turn * np.sin(turn * grid)  # the integral of 1 - tide cos(turn t)
    return np.interp(uniform * done[-1] / span_s, done, grid)


def _groups(made: Made, source: np.random.Generator, sessions: int) -> Ints:
    """Which system prompt each conversation has: the second half as often as the first, so on."""
    weights = 1 / np.arange(1, made.prompts + 1)
    return source.choice(made.prompts, sessions, p=weights / weights.sum())


class _Blocks:
    """Numbers of blocks: first those of system prompts, then each conversation's own."""

    def __init__(
        self,
        made: Made,
        inputs: Ints,
        answers: Ints,
        sessions: Ints,
        groups: Ints,
        begins: Ints,
        turns: Ints,
    ) -> None:
        self._shared = min(made.shared, made.longest) // made.block
        self._counts = (inputs + answers) // made.block
        own = np.maximum(self._counts[begins + turns - 1] - self._shared, 0)
        first = made.prompts * self._shared
        self.count = first + int(own.sum())
        if self.count > BLOCKS_MAX:
            raise InvalidRequest(
                f"the made trace has {self.count:,} different blocks", hint="make blocks larger"
            )
        self._own_first = (first + np.cumsum(own) - own)[sessions]
        self._shared_first = (groups * self._shared)[sessions]

    @property
    def bytes(self) -> int:
        """That ``in_order`` needs."""
        total = int(self._counts.sum())
        part = total * min(PART, len(self._counts)) // len(self._counts)
        return total * BLOCK_BYTES + part * PART_BLOCK_BYTES

    def in_order(self, order: Ints) -> tuple[Any, Any]:
        """Where each request's blocks begin, and all of them."""
        counts = self._counts[order]
        starts = np.concatenate(([0], np.cumsum(counts)))
        flat = np.empty(int(starts[-1]), np.uint32)
        for at in range(0, len(order), PART):
            part = order[at : at + PART]
            some = counts[at : at + PART]
            place = np.arange(int(some.sum())) - np.repeat(np.cumsum(some) - some, some)
            own = np.repeat(self._own_first[part] - self._shared, some) + place
            shared = np.repeat(self._shared_first[part], some) + place
            end = starts[min(at + PART, len(order))]
            flat[starts[at] : end] = np.where(place < self._shared, shared, own)
        return starts.astype(np.uint64), flat
