"""Calibration: rates of an engine from a measured run of `gd2fs bench topology --json`.

The run's own conversations are replayed, to the instances that answered them then, and rates are
searched for with which every first token comes when it came. What was found cached follows
from the replay alone: nothing about that is fitted.
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
from gd2fs.sim.trace import Trace

ARMS = ("A", "B")
STEPS = (3.0, 1.7, 1.3, 1.1, 1.03)  # by which rates are changed, ever less
ROUNDS_MAX = 12  # over all rates, with one of these
LEAST_S = 1e-7
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


class Run(msgspec.Struct):
    """What of a result is read."""

    requests: dict[str, list[Request]]
    workload: dict[str, Any]
    engine: dict[str, Any]


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


def trace_of(requests: Sequence[Request], block_tokens: int) -> Trace:
    """The conversations of one arm. The last token of an answer is never kept."""
    ordered = sorted(requests, key=lambda each: (each.session, each.turn))
    inputs = np.array([each.prompt_tokens for each in ordered], np.int64)
    answers = np.array([each.answer_tokens for each in ordered], np.int64)
    sessions = np.array([each.session for each in ordered], np.int64)
    counts = (inputs + answers - 1) // block_tokens
    most = int(counts.max()) + 1
    dense = np.unique(sessions, return_inverse=True)[1]
    starts = np.concatenate(([0], np.cumsum(counts)))
    place = np.arange(int(starts[-1])) - np.repeat(starts[:-1], counts)
    return Trace(
        name="calibration",
        block_tokens=block_tokens,
        block_count=most * (int(dense.max()) + 1),
        arrives_s=np.zeros(len(ordered)),
        input_tokens=inputs.astype(np.uint32),
        output_tokens=answers.astype(np.uint32),
        first_block=starts.astype(np.uint64),
        prompt_blocks=np.minimum(inputs // block_tokens, counts).astype(np.uint32),
        blocks=(np.repeat(dense, counts) * most + place).astype(np.uint32),
        session=dense.astype(np.uint32),
        instance=np.array([each.instance for each in ordered], np.int32),
    )


def calibrate(run: Run, *, block_tokens: int | None = None) -> Calibration:
    """Search for the rates. Takes seconds.

    Args:
        run: What was measured.
        block_tokens: Of a page of the engine; None: as the run says, or else 1.
    """
    tokens = block_tokens or int(run.engine.get("page_tokens", 1))
    arms = {arm: _Arm(run, arm, tokens) for arm in ARMS}
    known = {"token_s": 1e-3, "prompt_s": 1e-2, "step_s": 1e-2, "step_request_s": 1e-3}
    found = _search(arms, known | {"load_s": 1e-2})
    return Calibration(
        rates=_rates(arms["A"].base, found),
        load_s=found["load_s"],
        checks={arm: each.check(found) for arm, each in arms.items()},
    )


class _Arm:
    """One arm as it was measured, and the fleet that it is replayed to."""

    def __init__(self, run: Run, arm: str, block_tokens: int) -> None:
        self._requests = sorted(run.requests[arm], key=lambda each: (each.session, each.turn))
        self._trace = trace_of(self._requests, block_tokens)
        self._is_shared = arm == "B"
        most = max(each.instance for each in self._requests) + 1
        self._instances = max(most, int(run.workload.get("instances", 1)))
        self._workers = int(run.workload.get("concurrency", 1))
        self._first = np.array([each.ttft_s for each in self._requests])
        self.base = Rates(
            token_s=1.0,
            step_s=1.0,
            chunk_tokens=int(run.workload.get("ubatch", 0)),
            requests_max=int(run.workload.get("slots", 0)) or 256,
            token_bytes=float(run.engine.get("kv_bytes_per_token", 0)),
        )

    def play(self, found: Mapping[str, float]) -> Played:
        """With these rates."""
        fleet = Fleet(
            instances=self._instances,
            engine=_rates(self.base, found),
            device_blocks=0 if self._is_shared else UNLIMITED,
            store=Store(node_gbit=0.0, disk_read=0.0, disk_write=0.0) if self._is_shared else None,
            engine_gbit=0.0,
            load_s=found["load_s"],
            never_slower=False,
            workers=self._workers,
        )
        return play(self._trace, fleet)

    def distance(self, found: Mapping[str, float]) -> float:
        """How far off these rates are: of each first token, and of the means, in logarithms."""
        played = self.play(found)
        each = np.log(np.maximum(played.first_token_s, LEAST_S) / self._first)
        mean = math.log(played.first_token_s.mean() / self._first.mean())
        gap = math.log(max(played.gaps["mean"], LEAST_S) / self._gap_s())
        return float((each**2).mean()) + 4 * mean**2 + 4 * gap**2

    def _gap_s(self) -> float:
        gaps = sum(each.answer_tokens - 1 for each in self._requests)
        total = sum(each.last_token_s - each.ttft_s for each in self._requests)
        return max(total / max(gaps, 1), LEAST_S)

    def check(self, found: Mapping[str, float]) -> Check:
        """Measured and replayed."""
        played = self.play(found)
        return Check(
            ttft_s=float(self._first.mean()),
            simulated_ttft_s=float(played.first_token_s.mean()),
            gap_s=self._gap_s(),
            simulated_gap_s=played.gaps["mean"],
            reused_tokens=sum(each.reused_tokens for each in self._requests),
            simulated_reused_tokens=int(played.counts["found_tokens"]),
        )


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
