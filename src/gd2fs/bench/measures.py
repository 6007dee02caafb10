"""Measures: what one topology did, in the figures that are compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gd2fs.bench.load import Played  # which needs the extra `demo`


@dataclass(frozen=True, slots=True)
class TimeToFirstToken:
    """Over turns after the first."""

    mean: float
    p95: float


@dataclass(frozen=True, slots=True)
class TimePerOutputToken:
    """The gaps between one token of an answer and the next, over all turns."""

    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class LastEvent:
    """From the last token of an answer to its last event: with a store, the save lies between."""

    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class Arm:
    """One topology's figures. Times in seconds.

    Attributes:
        requests_per_s: All requests, from the first one sent to the last one ended.
        hit_rate: Of the histories' tokens, those that were not computed again. A history is what a
            cache could hold: all of the earlier turns but the very last token.
        prefill_tokens: Of all prompts, computed.
        cache_bytes: Room for KV caches: private slots and prompt caches, or the store's arena.
        wall_s: From the first request sent to the last one ended.
        history_tokens, reused_tokens: What ``hit_rate`` is made of.
        engine_counts: The instances' own counts, added up.
    """

    requests_per_s: float
    ttft_s: TimeToFirstToken
    tpot_s: TimePerOutputToken
    hit_rate: float
    prefill_tokens: int
    cache_bytes: int
    requests: int
    wall_s: float
    history_tokens: int
    reused_tokens: int
    last_event_s: LastEvent
    engine_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both topologies of one run, which were asked the same.

    Attributes:
        before: Private caches.
        after: The same engines with GD2FS.
        played_before, played_after: Every request of each.
    """

    before: Arm
    after: Arm
    played_before: Sequence[Played]
    played_after: Sequence[Played]


def arm_of(played: Sequence[Played], *, cache_bytes: int, engine_counts: Mapping[str, int]) -> Arm:
    """Sum up a topology's turns."""
    later = [each for each in played if each.turn.index]
    ttft = [each.answer.ttft_s for each in later]
    gaps = [gap for each in played for gap in each.answer.gaps_s]
    start, end = min(p.answer.sent_s for p in played), max(p.answer.end_s for p in played)
    lasts = [each.answer.end_s - each.answer.token_s[-1] for each in played]
    history = sum(each.turn.history_tokens for each in later)
    reused = history - sum(each.history_recomputed for each in later)
    return Arm(
        requests_per_s=len(played) / (end - start),
        ttft_s=TimeToFirstToken(statistics.fmean(ttft), percentile(ttft, 95)),
        tpot_s=TimePerOutputToken(statistics.fmean(gaps), max(gaps)),
        hit_rate=reused / history,
        prefill_tokens=sum(each.answer.computed_tokens for each in played),
        cache_bytes=cache_bytes,
        requests=len(played),
        wall_s=end - start,
        history_tokens=history,
        reused_tokens=reused,
        last_event_s=LastEvent(statistics.fmean(lasts), max(lasts)),
        engine_counts=engine_counts,
    )


def ratios_of(before: Arm, after: Arm) -> dict[str, Any]:
    """Every figure of ``after`` in parts of that of ``before``, in the same shape."""
    names = ("requests_per_s", "ttft_s", "tpot_s", "hit_rate", "prefill_tokens", "cache_bytes")
    left, right = asdict(before), asdict(after)
    return {name: _ratio(left[name], right[name]) for name in names}


def requests_of(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Every request as a line: what it was, who answered it, and when. Seconds since the first."""
    start = min(each.answer.sent_s for each in played)
    return [
        {
            "session": each.turn.session,
            "turn": each.turn.index,
            "instance": each.instance,
            "prompt_tokens": each.answer.reused_tokens + each.answer.computed_tokens,
            "answer_tokens": len(each.answer.token_s),
            "agreeing_tokens": _agreeing_tokens(each),
            "history_tokens": each.turn.history_tokens,
            "reused_tokens": each.answer.reused_tokens,
            "sent_s": each.answer.sent_s - start,
            "ttft_s": each.answer.ttft_s,
            "last_step_s": each.answer.token_s[-2:][0] - each.answer.sent_s,
            "last_token_s": each.answer.token_s[-1] - each.answer.sent_s,
            "end_s": each.answer.end_s - each.answer.sent_s,
        }
        for each in played
    ]


def beginnings_of(played: Sequence[Played]) -> list[dict[str, int]]:
    """Which sessions of the script begin as an earlier one does, and with how many ``tokens``.

    ``as_session`` is the one of them that has most in common with it.
    """
    last = {each.turn.session: each.turn for each in sorted(played, key=lambda p: p.turn.index)}
    whole = {session: (*turn.prompt, *turn.answer) for session, turn in sorted(last.items())}
    found = []
    for session, tokens in whole.items():
        earlier = [other for other in whole if other < session]
        alike = {other: _in_common(tokens, whole[other]) for other in earlier}
        most = max(alike, key=lambda other: alike[other], default=session)
        if alike.get(most):
            found.append({"session": session, "as_session": most, "tokens": alike[most]})
    return found


def _agreeing_tokens(played: Played) -> int:
    """With how many tokens of the script's the answer begins."""
    if played.agrees:
        return len(played.answer.token_s)
    return _in_common(played.answer.tokens, played.turn.answer)


def _in_common(one: Sequence[Any], other: Sequence[Any]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least ``percent`` of a hundred values do not exceed."""
    ordered = sorted(values)
    rank = max(1, math.ceil(len(ordered) * percent / 100))
    return ordered[rank - 1]


def agreement(left: Sequence[Played], right: Sequence[Played]) -> float:
    """The share of turns that both topologies answered with the same tokens."""
    answers = {(p.turn.session, p.turn.index): p.answer.tokens for p in left}
    same = sum(answers[p.turn.session, p.turn.index] == p.answer.tokens for p in right)
    return same / len(right)


def _ratio(before: Any, after: Any) -> Any:
    if isinstance(before, dict):
        return {name: _ratio(before[name], after[name]) for name in before}
    return after / before if before else None
