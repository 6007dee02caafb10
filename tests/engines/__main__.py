"""Run the tests of the engines, each inside its own environment: `python -m engines [ENGINE...]`.

What follows `--` goes to pytest; `--setup` only makes the environments. The last line is
`N passed, N failed, N skipped`, over all engines; one that could not be set up, or whose tests
broke off, is a failure. The exit status is 0 only when nothing failed and nothing was skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from engines.environments import (
    PLACE,
    ROOT,
    SOURCES,
    Environment,
    EnvironmentFault,
    build_wheel,
)

ENGINES = tuple(sorted(path.parent.name for path in SOURCES.glob("*/engine.txt")))
ENGINE_S = 3600.0  # the tests of one engine, on a busy machine; each has a deadline of its own


@dataclass
class Outcome:
    """How many tests ended how."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def main(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own, for_pytest = arguments[:at], arguments[at + 1 :]
    is_setup = "--setup" in own
    names = [each for each in own if each != "--setup"] or list(ENGINES)
    unknown = [name for name in names if name not in ENGINES]
    if unknown:
        print(f"error: no engine `{unknown[0]}`; there are {', '.join(ENGINES)}", file=sys.stderr)
        return 2
    total = Outcome()
    for environment in made_ready([Environment(name) for name in names], total):
        if not is_setup:
            total.add(run_tests(environment, for_pytest))
    print(total, flush=True)
    return 1 if total.failed or total.skipped or not (total.passed or is_setup) else 0


def made_ready(environments: list[Environment], total: Outcome) -> list[Environment]:
    """Those that could be made; the others are failures, told on standard error."""
    ready = []
    for environment in environments:
        try:
            environment.make_ready(build_wheel())
        except EnvironmentFault as fault:
            print(f"error: no environment for {environment.engine}: {fault}", file=sys.stderr)
            total.failed += 1
        else:
            ready.append(environment)
    return ready


def run_tests(environment: Environment, for_pytest: list[str]) -> Outcome:
    """Run the tests of an engine by its own Python."""
    print(f"{environment.engine}: tests in {environment.folder}", flush=True)
    report = PLACE / f"{environment.engine}.xml"
    report.unlink(missing_ok=True)
    command = [str(environment.python), "-m", "pytest", "-c", str(SOURCES / "in_environment.ini")]
    command += ["--rootdir", str(SOURCES), "--confcutdir", str(SOURCES)]
    command += [f"--junitxml={report}", str(environment.tests), *for_pytest]
    own = {"PYTHONPATH": str(ROOT / "tests"), "PYTHONUNBUFFERED": "1"}
    path = f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}"  # engines compile
    variables = {**os.environ, **own, "PATH": path}
    try:
        status = subprocess.run(command, cwd=PLACE, env=variables, timeout=ENGINE_S).returncode
    except subprocess.TimeoutExpired:
        print(f"error: the tests of {environment.engine} took over {ENGINE_S:.0f} s", flush=True)
        status = 124
    outcome = read_report(report)
    if status and not outcome.failed:
        outcome.failed = 1  # it broke off before it could count
    return outcome


def read_report(path: Path) -> Outcome:
    """The counts of a report in JUnit's format; nothing without one."""
    if not path.is_file():
        return Outcome()
    outcome = Outcome()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        passed = int(suite.get("tests", 0)) - failed - skipped
        outcome.add(Outcome(max(passed, 0), failed, skipped))
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
