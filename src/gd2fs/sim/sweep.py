"""Sweep: many settings of one trace, in parallel, each kept as soon as it is known.

What is known lies in a file (see ``results``); a sweep that was broken off goes on where it was.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.sim.cost import Prices, check_priced, cost_of
from gd2fs.sim.figures import figures_of
from gd2fs.sim.inputs import inputs_of
from gd2fs.sim.playing import play
from gd2fs.sim.progress import opened_trace
from gd2fs.sim.results import opened_results
from gd2fs.sim.setting import Setting
from gd2fs.sim.trace import Trace
from gd2fs.sim.workers import worked_out

POINTS_MAX = 100_000
JOBS_MAX = 1024
AXES = (  # what may have several values
    "topology",
    "instances",
    "balancer",
    "cache_blocks",
    "disk_blocks",
    "device_blocks",
    "nodes",
    "policy",
    "replicas",
    "node_gbit",
    "engine_gbit",
)
Point = tuple[Any, ...]  # a value of each axis


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is varied.

    Attributes:
        trace: Its name, as ``opened_trace`` takes it.
        block_tokens: Of it; None: as its form has.
        base: What all have in common.
        axes: Values of those of ``AXES`` that are varied.
        prices: Of the fleet; None: cost is not worked out.
    """

    trace: str
    block_tokens: int | None
    base: Setting
    axes: Mapping[str, Sequence[Any]]
    prices: Prices | None = None

    def points(self) -> list[Point]:
        """All combinations. Raises InvalidRequest when they are too many, or one cannot be."""
        count = math.prod(len(values) for values in self.axes.values())
        if not 1 <= count <= POINTS_MAX:
            raise InvalidRequest(f"a sweep of {count:,} settings", hint=f"give 1 to {POINTS_MAX:,}")
        found = itertools.product(*self.axes.values())
        unique = {self.setting_of(point): point for point in found}
        for setting in unique:
            setting.fleet()
            if self.prices is not None:
                check_priced(setting, self.prices)
        return list(unique.values())

    def setting_of(self, point: Point) -> Setting:
        """Of one combination. What does not matter to it has one value."""
        setting = replace(self.base, **dict(zip(self.axes, point, strict=True)))
        if setting.is_shared:
            return setting
        plain = {name: getattr(self.base, name) for name in ("nodes", "policy", "replicas")}
        return replace(setting, **plain, disk_blocks=0, node_gbit=self.base.node_gbit, kills=())

    def identity(self, trace: Trace | None = None) -> dict[str, Any]:
        """What two runs must have in common to go on with each other's results.

        Args:
            trace: If it was read already; else its file is read.

        Raises:
            InvalidRequest: The trace is a file that cannot be read.
        """
        files = inputs_of(self.trace)
        digest = trace.sha256 if trace else _digest(files["the trace"]) if files else None
        return {
            "trace": self.trace,
            "sha256": digest,
            "block_tokens": self.block_tokens,
            "base": self.base.facts(),
        }


def run_sweep(
    sweep: Sweep, results: Path, *, jobs: int, report: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Work out every point that ``results`` does not have yet; all of them, in their order.

    Args:
        sweep: What is varied.
        results: Where results lie, and are written; no other sweep can do so meanwhile.
        jobs: Processes, 1 to ``JOBS_MAX``.
        report: Called with how many are done.

    Raises:
        InvalidRequest: ``results`` is of another trace or setting, or another sweep has it.
    """
    if not 1 <= jobs <= JOBS_MAX:
        raise InvalidRequest(f"{jobs} processes for a sweep", hint=f"1 to {JOBS_MAX}")
    settings = [sweep.setting_of(point) for point in sweep.points()]
    trace = _of_pipe(sweep)
    with opened_results(results, sweep.identity(trace)) as file:
        known = {_key_of_facts(each["setting"]): each for each in file.known}
        missing = [setting for setting in settings if _key(setting) not in known]
        before = len(settings) - len(missing)
        report(before)
        for done, figures in enumerate(_worked_out(sweep, trace, missing, jobs), before + 1):
            figures = file.add(figures)
            known[_key_of_facts(figures["setting"])] = figures
            report(done)
    return [_with_cost(known[_key(setting)], sweep) for setting in settings]


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indexes of points that no other beats in both, the least first value first."""
    best = float("inf")
    found = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if points[at][1] < best:
            best = points[at][1]
            found.append(at)
    return found


def is_unlimited(run: Mapping[str, Any]) -> bool:
    """Has this run more cache than any machine? Then it has no price, and is the best of none."""
    return not run["setting"]["cache_blocks"]


def _of_pipe(sweep: Sweep) -> Trace | None:
    """The trace, where it can be read only once; None: it is made, or a file that can be again."""
    path = inputs_of(sweep.trace).get("the trace")
    if path is None or path.is_file() or not path.exists():
        return None
    return opened_trace(sweep.trace, sweep.block_tokens)


def _digest(path: Path) -> str:
    """Of a file's content. Raises InvalidRequest."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}", hint="name a file, or `made:requests=N,...`"
        ) from error


def _key(setting: Setting) -> str:
    return _key_of_facts(json.loads(json.dumps(setting.facts())))


def _key_of_facts(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True)


def _worked_out(
    sweep: Sweep, trace: Trace | None, settings: Sequence[Setting], jobs: int
) -> Iterator[dict[str, Any]]:
    if not settings:
        return
    if trace is None:
        trace = opened_trace(sweep.trace, sweep.block_tokens)
    if jobs == 1 or len(settings) == 1:
        yield from (_work_out(trace, setting) for setting in settings)
    else:
        yield from worked_out(_work_out, trace, settings, jobs)


def _work_out(trace: Trace, setting: Setting) -> dict[str, Any]:
    figures = figures_of(play(trace, setting.fleet()))
    figures["setting"] = setting.facts()
    figures["trace"] = trace.facts()
    return figures


def _with_cost(figures: dict[str, Any], sweep: Sweep) -> dict[str, Any]:
    if sweep.prices is None or is_unlimited(figures):
        return figures
    facts = dict(figures["setting"])
    setting = replace(sweep.base, **{name: facts[name] for name in AXES})
    return figures | {"cost": cost_of(figures, setting, figures["trace"], sweep.prices)}
