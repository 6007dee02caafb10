"""Job: one thing that a client process does over and over while it is timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from gd2fs import _core
from gd2fs.bench.io.memory import blank, differ, spots_differ
from gd2fs.errors import Corrupt


@dataclass(slots=True)
class Phase:
    """Calls of one job, one after the other.

    Attributes:
        calls_ns: How long each took.
        call_ns: What one costs when they follow each other: less than its latency where several
            are in flight.
        cpu_ns: That all threads of this process ran meanwhile.
        gil_ns: That each call kept the interpreter's lock.
    """

    calls_ns: list[int] = field(default_factory=list)
    call_ns: float = 0.0
    cpu_ns: int = 0
    gil_ns: list[int] = field(default_factory=list)


class Job:
    """Base of all jobs: what is timed is ``call`` alone."""

    def prepare(self) -> None:
        """Make what the calls need. Called once, before the first."""

    def before(self) -> None:
        """Called before each call, untimed."""

    def call(self) -> None:
        """What is measured."""
        raise NotImplementedError

    def after(self) -> None:
        """Called after each call, untimed: raises Corrupt when its answer is wrong."""

    def check(self) -> None:
        """Compare all bytes of the last call. Raises Corrupt."""

    def finish(self) -> None:
        """Remove what ``prepare`` made."""

    def run(self, times: int) -> Phase:
        """Do it so often."""
        phase = Phase()
        for _ in range(times):
            self.before()
            cpu_ns, free_ns = time.process_time_ns(), _core.gil_released_ns()
            start_ns = time.perf_counter_ns()
            self.call()
            call_ns = time.perf_counter_ns() - start_ns
            phase.cpu_ns += time.process_time_ns() - cpu_ns
            phase.gil_ns.append(call_ns - (_core.gil_released_ns() - free_ns))
            phase.calls_ns.append(call_ns)
            self.after()
        ordered = sorted(phase.calls_ns)
        phase.call_ns = float(ordered[len(ordered) // 2])
        return phase


class Filling(Job):
    """A job whose calls fill ``into`` with what ``expected`` holds."""

    into: memoryview
    expected: memoryview
    what: str

    def before(self) -> None:
        blank(self.into)

    def after(self) -> None:
        if spots_differ(self.into, self.expected):
            raise wrong(self.what)

    def check(self) -> None:
        if differ(self.into, self.expected):
            raise wrong(self.what)


def wrong(what: str) -> Corrupt:
    """The error for an answer that is not what was stored."""
    return Corrupt(f"{what}: other bytes than were stored", hint="nothing was measured: report it")


def expect(is_whole: bool, what: str, found: Sequence[object] | int | None = None) -> None:
    """Raise Corrupt unless a call did all it was asked for."""
    if not is_whole:
        told = f", got {found}" if isinstance(found, int) or found is None else ""
        raise Corrupt(f"{what}: not everything was there{told}", hint="give nodes more `--memory`")
