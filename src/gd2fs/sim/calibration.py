"""Calibration: rates of an engine from a measured run of `gd2fs bench topology --json`.

The run's own conversations are replayed, to the instances that answered them then, and rates are
searched for with which every first token comes when it came. What was found cached follows
from the replay alone: nothing about that is fitted. Where engines have slots, it depends on which
of them are idle: what is found is replayed at the times that were measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gd2fs.errors import InvalidRequest
from gd2fs.sim.engine import Rates
from gd2fs.sim.fleet import UNLIMITED, Fleet, Store
from gd2fs.sim.playing import Played, play
from gd2fs.sim.trace import Floats, Ints, Trace

ARMS = ("A", "B")
STEPS = (3.0, 1.7, 1.3, 1.1, 1.03)  # by which rates are changed, ever less
ROUNDS_MAX = 12  # over all rates, with one of these
LEAST_S = 1e-7
FIRST_WEIGHT, GAP_WEIGHT = 40, 4  # of means, against the mean over each request
MIB = 1 << 20
ENGINE_WITH_SLOTS = "llamacpp"
SEARCHED = ("token_s", "prompt_s", "step_s", "step_request_s", "load_s")


class Request(msgspec.Struct):
    """One of those that were measured, as the run has written it."""

    session: int
    turn: int
    instance: int
    prompt_tokens: int
    answer_tokens: int
    reused_tokens: int
    ttft_s: float
    last_token_s: float
    sent_s: float = 0.0
    end_s: float = 0.0
    last_step_s: float | None = None  # when the token before the last came
    agreeing_tokens: int | None = None  # of the answer, with the script's; None: all

    @property
    def kept_tokens(self) -> int:
        """The last token of an answer is never kept."""
        return self.prompt_tokens + self.answer_tokens - 1

    @property
    def kept_of_script(self) -> int:
        """Of these, the tokens with which the next turn begins."""
        agreeing = self.answer_tokens if self.agreeing_tokens is None else self.agreeing_tokens
        return min(self.prompt_tokens + agreeing, self.kept_tokens)


class Beginning(msgspec.Struct):
    """A session begins as an earlier one does, with so many tokens."""

    session: int
    as_session: int
    tokens: int


class Run(msgspec.Struct):
    """What of a result is read."""

    requests: dict[str, list[Request]]
    workload: dict[str, Any]
    engine: dict[str, Any]
    beginnings: list[Beginning] = []


@dataclass(frozen=True, slots=True)
class Check:
    """One arm: measured, and replayed with the rates that were found. Means."""

    ttft_s: float
    simulated_ttft_s: float
    gap_s: float
    simulated_gap_s: float
    reused_tokens: int
    simulated_reused_tokens: int


@dataclass(frozen=True, slots=True)
class Found:
    """Tokens that each prompt of an arm found in a cache, in the order in which it was asked."""

    measured: list[int]
    simulated: list[int]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What came out.

    Attributes:
        rates: Of one instance.
        load_s: Of every load from the store.
        checks: By arm: A had private caches, B GD2FS.
    """

    rates: Rates
    load_s: float
    checks: Mapping[str, Check]

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it; `gd2fs sim --engine` takes such a file."""
        return {
            "rates": asdict(self.rates),
            "load_s": self.load_s,
            "checks": {arm: asdict(check) for arm, check in self.checks.items()},
        }


def read_run(path: Path) -> Run:
    """Of a file that `gd2fs bench topology --json` has written. Raises InvalidRequest."""
    try:
        run = msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            f"{path} is no result of a topology with its requests: {error}",
            hint="write it with `gd2fs bench topology --json FILE`",
        ) from error
    if not all(run.requests.get(arm) for arm in ARMS):
        raise InvalidRequest(f"{path} has no requests of both arms")
    return run


def trace_of(
    requests: Sequence[Request], block_tokens: int, beginnings: Sequence[Beginning] = ()
) -> Trace:
    """The conversations of one arm, in the order in which they were asked.

    Args:
        requests: Of the arm.
        block_tokens: Of a block.
        beginnings: Which sessions begin alike; all others begin differently.
    """
    ordered = sorted(requests, key=lambda each: each.sent_s)
    chains = _chains_of(ordered, block_tokens, beginnings)
    count = max((int(chain.max(initial=-1)) for chain in chains.values()), default=-1) + 1
    blocks: list[Ints] = []
    for each in ordered:
        own = chains[each.session][: each.kept_of_script // block_tokens]
        more = each.kept_tokens // block_tokens - len(own)  # that nobody goes on with
        blocks += [own, np.arange(count, count + more)]
        count += more
    inputs = np.array([each.prompt_tokens for each in ordered], np.int64)
    kept = np.array([each.kept_tokens for each in ordered], np.int64) // block_tokens
    sessions = np.array([each.session for each in ordered], np.int64)
    return Trace(
        name="calibration",
        block_tokens=block_tokens,
        block_count=count,
        arrives_s=np.zeros(len(ordered)),
        input_tokens=inputs.astype(np.uint32),
        output_tokens=np.array([each.answer_tokens for each in ordered], np.uint32),
        first_block=np.concatenate(([0], np.cumsum(kept))).astype(np.uint64),
        prompt_blocks=np.minimum(inputs // block_tokens, kept).astype(np.uint32),
        blocks=np.concatenate(blocks).astype(np.uint32),
        session=np.unique(sessions, return_inverse=True)[1].astype(np.uint32),
        instance=np.array([each.instance for each in ordered], np.int32),
    )


def _chains_of(
    requests: Sequence[Request], block_tokens: int, beginnings: Sequence[Beginning]
) -> dict[int, Ints]:
    """The blocks of each session's script: its own ones after those of another one's beginning."""
    lengths: dict[int, int] = {}
    for each in requests:
        length = each.kept_of_script // block_tokens
        lengths[each.session] = max(lengths.get(each.session, 0), length)
    alike = {each.session: each for each in beginnings}
    chains: dict[int, Ints] = {}
    count = 0
    for session, length in sorted(lengths.items()):
        begins = alike.get(session)
        shared = np.empty(0, np.int64)
        if begins is not None and begins.as_session in chains:
            shared = chains[begins.as_session][: begins.tokens // block_tokens][:length]
        own = np.arange(count, count + length - len(shared))
        chains[session] = np.concatenate((shared, own))
        count += len(own)
    return chains


def calibrate(run: Run, *, block_tokens: int | None = None) -> Calibration:
    """Search for the rates. Takes seconds.

    Args:
        run: What was measured.
        block_tokens: Of a page of the engine; None: as the run says, or else 1.
    """
    tokens = block_tokens or _page_tokens(run)
    arms = {arm: _Arm(run, arm, tokens) for arm in ARMS}
    known = {"token_s": 1e-3, "prompt_s": 1e-2, "step_s": 1e-2, "step_request_s": 1e-3}
    found = _search(arms, known | {"load_s": 1e-2})
    return Calibration(
        rates=_rates(arms["A"].base, found),
        load_s=found["load_s"],
        checks={arm: each.check(found) for arm, each in arms.items()},
    )


def found_in(run: Run, arm: str) -> Found:
    """What an arm of a run has found, and what it finds when it is replayed as it was measured."""
    return _Arm(run, arm, _page_tokens(run)).found()


def _page_tokens(run: Run) -> int:
    return int(run.engine.get("page_tokens", 1))


class _Arm:
    """One arm as it was measured, and the fleet that it is replayed to."""

    def __init__(self, run: Run, arm: str, block_tokens: int) -> None:
        ordered = sorted(run.requests[arm], key=lambda e: (e.sent_s, e.session, e.turn))
        self._requests = ordered
        self._beginnings = run.beginnings
        self._trace = trace_of(ordered, block_tokens, run.beginnings)
        self._is_shared = arm == "B"
        most = max(each.instance for each in self._requests) + 1
        self._instances = max(most, int(run.workload.get("instances", 1)))
        self._workers = int(run.workload.get("concurrency", 1))
        self._first = np.array([each.ttft_s for each in self._requests])
        slots = int(run.workload.get("slots", 0))
        token_bytes = float(run.engine.get("kv_bytes_per_token", 0))
        host_bytes = MIB * int(run.engine.get("private_prompt_cache_mib", 0))
        self._host_blocks = int(host_bytes // (token_bytes * block_tokens)) if token_bytes else 0
        self.base = Rates(
            token_s=1.0,
            step_s=1.0,
            chunk_tokens=int(run.workload.get("ubatch", 0)),
            requests_max=slots or 256,
            slots=slots if run.engine.get("name") == ENGINE_WITH_SLOTS else 0,
            token_bytes=token_bytes,
        )

    def play(self, found: Mapping[str, float]) -> Played:
        """With these rates, as fast as these let it be."""
        rates = _rates(self.base, found)
        return play(self._trace, self._fleet(rates, found["load_s"], self._workers))

    def found(self, played: Played | None = None) -> Found:
        """Tokens of prompts that are found when it is played so, or as it was measured."""
        order = np.arange(len(self._requests))
        if played is None or self.base.slots:
            trace, order = self._as_measured()
            played = play(trace, self._fleet(self.base, 0.0, 0))
        blocks = played.found_blocks.astype(np.int64)
        most = played.trace.input_tokens.astype(np.int64) - 1  # the last one is always computed
        return Found(
            measured=[self._requests[at].reused_tokens for at in order],
            simulated=np.minimum(blocks * played.trace.block_tokens, most).tolist(),
        )

    def _as_measured(self) -> tuple[Trace, Ints]:
        """Everything when it was, and which request is which.

        With a store, a slot is free once its content is stored.
        """
        requests = self._requests
        ends = np.array([each.sent_s + each.end_s for each in requests])
        if not self._is_shared:
            ends = _ends_of_steps(requests)
            requests = _waited_for_steps(requests, ends)
        order = np.argsort([each.sent_s for each in requests], kind="stable")
        sent = np.array([requests[at].sent_s for at in order])
        first = np.array([self._requests[at].sent_s for at in order]) + self._first[order]
        trace = replace(
            trace_of(requests, self._trace.block_tokens, self._beginnings),
            arrives_s=sent,
            measured_first_s=first - sent,
            measured_done_s=ends[order] - sent,
        )
        return trace, order

    def _fleet(self, rates: Rates, load_s: float, workers: int) -> Fleet:
        return Fleet(
            instances=self._instances,
            engine=rates,
            device_blocks=0 if self._is_shared or rates.slots else UNLIMITED,
            host_blocks=0 if self._is_shared else self._host_blocks,
            store=Store(node_gbit=0.0, disk_read=0.0, disk_write=0.0) if self._is_shared else None,
            engine_gbit=0.0,
            load_s=load_s,
            never_slower=False,
            workers=workers,
        )

    def distance(self, found: Mapping[str, float]) -> float:
        """How far off these rates are: of each first token, and of the means, in logarithms."""
        played = self.play(found)
        each = np.log(np.maximum(played.first_token_s, LEAST_S) / self._first)
        mean = math.log(played.first_token_s.mean() / self._first.mean())
        gap = math.log(max(played.gaps["mean"], LEAST_S) / self._gap_s())
        return float((each**2).mean()) + FIRST_WEIGHT * mean**2 + GAP_WEIGHT * gap**2

    def _gap_s(self) -> float:
        gaps = sum(each.answer_tokens - 1 for each in self._requests)
        total = sum(each.last_token_s - each.ttft_s for each in self._requests)
        return max(total / max(gaps, 1), LEAST_S)

    def check(self, found: Mapping[str, float]) -> Check:
        """Measured and replayed."""
        played = self.play(found)
        tokens = self.found(played)
        return Check(
            ttft_s=float(self._first.mean()),
            simulated_ttft_s=float(played.first_token_s.mean()),
            gap_s=self._gap_s(),
            simulated_gap_s=played.gaps["mean"],
            reused_tokens=sum(tokens.measured),
            simulated_reused_tokens=sum(tokens.simulated),
        )


def _begins_of_steps(requests: Sequence[Request]) -> Floats:
    """When the last step of each answer began."""
    lasts = [each.last_step_s or each.last_token_s for each in requests]
    return np.array([each.sent_s for each in requests]) + np.array(lasts)


def _ends_of_steps(requests: Sequence[Request]) -> Floats:
    """When each answer ended. Those of one step end at once, although they are told one by one."""
    begins = _begins_of_steps(requests)
    ends = np.array([each.sent_s + each.last_token_s for each in requests])
    instances = np.array([each.instance for each in requests])
    for instance in np.unique(instances):
        earliest = -np.inf
        for at in sorted(np.flatnonzero(instances == instance), key=lambda at: ends[at]):
            if ends[at] - earliest < (ends[at] - begins[at]) / 2:
                ends[at] = earliest
            earliest = ends[at]
    return ends


def _waited_for_steps(requests: Sequence[Request], ends: Floats) -> list[Request]:
    """As engines have seen them: who comes during the last step of an answer waits for its end."""
    begins = _begins_of_steps(requests)
    instances = np.array([each.instance for each in requests])
    waited = []
    for each in requests:
        is_step = (instances == each.instance) & (begins <= each.sent_s) & (each.sent_s < ends)
        seen_s = float(ends[is_step].max()) + LEAST_S if is_step.any() else each.sent_s
        waited.append(msgspec.structs.replace(each, sent_s=seen_s))
    return waited


def _rates(base: Rates, found: Mapping[str, float]) -> Rates:
    return replace(
        base,
        token_s=found["token_s"],
        prompt_s=found["prompt_s"],
        step_s=found["step_s"],
        step_request_s=found["step_request_s"],
    )


def _search(arms: Mapping[str, _Arm], start: Mapping[str, float]) -> dict[str, float]:
    """One rate after the other is made larger or smaller, as long as that brings it nearer."""
    found = dict(start)
    best = sum(arm.distance(found) for arm in arms.values())
    for step in STEPS:
        for _ in range(ROUNDS_MAX):
            before = best
            for name in SEARCHED:
                for times in (step, 1 / step):
                    tried = found | {name: max(found[name] * times, LEAST_S)}
                    distance = sum(arm.distance(tried) for arm in arms.values())
                    if distance < best:
                        found, best = tried, distance
            if best == before:
                break
    return found
