"""Sweep: many settings of one trace, in parallel, each kept as soon as it is known.

What is known lies in a file of JSON lines: its first line says of which trace and which setting
all others are variations; a sweep that was broken off goes on where it was.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.sim.cost import Prices, cost_of
from gd2fs.sim.figures import figures_of
from gd2fs.sim.playing import play
from gd2fs.sim.progress import opened_trace
from gd2fs.sim.setting import Setting
from gd2fs.sim.trace import Trace

POINTS_MAX = 100_000
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
        found = list(itertools.product(*self.axes.values()))
        if len(found) > POINTS_MAX:
            raise InvalidRequest(f"{len(found):,} settings are too many", hint=f"{POINTS_MAX:,}")
        unique = {self.setting_of(point): point for point in found}
        for setting in unique:
            setting.fleet()
        return list(unique.values())

    def setting_of(self, point: Point) -> Setting:
        """Of one combination. What does not matter to it has one value."""
        setting = replace(self.base, **dict(zip(self.axes, point, strict=True)))
        if setting.is_shared:
            return setting
        plain = {name: getattr(self.base, name) for name in ("nodes", "policy", "replicas")}
        return replace(setting, **plain, disk_blocks=0, node_gbit=self.base.node_gbit, kills=())

    def identity(self) -> dict[str, Any]:
        """What two runs must have in common to go on with each other's results."""
        return {"trace": self.trace, "block_tokens": self.block_tokens, "base": self.base.facts()}


def run_sweep(
    sweep: Sweep, results: Path, *, jobs: int, report: Callable[[int], None]
) -> list[dict[str, Any]]:
    """Work out every point that ``results`` does not have yet; all of them, in their order.

    Args:
        sweep: What is varied.
        results: Where results lie, and are written.
        jobs: Processes; each reads or makes the trace for itself.
        report: Called with how many are done.

    Raises:
        InvalidRequest: ``results`` is of another trace or setting.
    """
    points = sweep.points()
    known = _known(sweep, results)
    missing = [point for point in points if _key(sweep.setting_of(point)) not in known]
    report(len(points) - len(missing))
    with results.open("a", encoding="utf-8") as file:
        if file.tell() == 0:
            file.write(json.dumps(sweep.identity()) + "\n")
        for done, (setting, figures) in enumerate(_worked_out(sweep, missing, jobs), 1):
            line = json.dumps(figures)
            known[_key(setting)] = json.loads(line)  # as it will be read again
            file.write(line + "\n")
            file.flush()
            report(len(points) - len(missing) + done)
    ordered = [known[_key(sweep.setting_of(point))] for point in points]
    return [_with_cost(each, sweep) for each in ordered]


def pareto(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indexes of points that no other beats in both, the least first value first."""
    best = float("inf")
    found = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if points[at][1] < best:
            best = points[at][1]
            found.append(at)
    return found


def _known(sweep: Sweep, results: Path) -> dict[str, dict[str, Any]]:
    if not results.exists():
        return {}
    lines = results.read_text(encoding="utf-8").splitlines()
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            if number == len(lines):  # the run was broken off while it wrote
                _cut(results, lines[:-1])
                break
            raise InvalidRequest(f"{results}:{number} is not JSON: {error}") from error
        if number > 1:
            found[_key_of_facts(value["setting"])] = value
        elif value != json.loads(json.dumps(sweep.identity())):
            raise InvalidRequest(
                f"{results} is of another trace or setting", hint="name another file, or remove it"
            )
    return found


def _cut(results: Path, lines: Sequence[str]) -> None:
    results.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def _key(setting: Setting) -> str:
    return _key_of_facts(json.loads(json.dumps(setting.facts())))


def _key_of_facts(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True)


def _worked_out(
    sweep: Sweep, points: Sequence[Point], jobs: int
) -> Iterator[tuple[Setting, dict[str, Any]]]:
    if not points:
        return
    settings = [sweep.setting_of(point) for point in points]
    if jobs == 1 or len(points) == 1:
        trace = opened_trace(sweep.trace, sweep.block_tokens)
        yield from ((setting, _work_out(trace, setting)) for setting in settings)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        min(jobs, len(points)), context, _open, (sweep.trace, sweep.block_tokens)
    )
    with pool:
        try:
            futures = {pool.submit(_in_child, setting): setting for setting in settings}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


_opened: list[Trace] = []  # of a child: the trace that all its points are played from


def _open(name: str, block_tokens: int | None) -> None:
    _opened.append(opened_trace(name, block_tokens))


def _in_child(setting: Setting) -> dict[str, Any]:
    return _work_out(_opened[0], setting)


def _work_out(trace: Trace, setting: Setting) -> dict[str, Any]:
    figures = figures_of(play(trace, setting.fleet()))
    figures["setting"] = setting.facts()
    figures["trace"] = trace.facts()
    return figures


def _with_cost(figures: dict[str, Any], sweep: Sweep) -> dict[str, Any]:
    if sweep.prices is None:
        return figures
    facts = dict(figures["setting"])
    setting = replace(sweep.base, **{name: facts[name] for name in AXES})
    return figures | {"cost": cost_of(figures, setting, figures["trace"], sweep.prices)}
