"""Model: the rules of records without sockets, run once without each rule (`test_protocol`).

A rule that real nodes are rarely quick enough to break in front of a client is broken there within
some thousand seeds. This is the same code that the nodes run.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

CASE = "without any one of the rules some reader does"
LINE = re.compile(r"without ([a-z ]+): (\d+) of (\d+) seeds show it")
TIMEOUT_S = 600.0


class ModelFailed(Exception):
    """The test of the model did not pass."""


def rules_found(program: Path) -> set[str]:
    """By which rules' absence a reader saw what it must not.

    Args:
        program: `test_protocol`, built.

    Raises:
        ModelFailed: It did not pass.
    """
    command = [str(program.resolve()), f"--test-case={CASE}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ModelFailed(f"{program} ended with {done.returncode}: {done.stdout.strip()}")
    return {name for name, count, _ in LINE.findall(done.stdout) if int(count) > 0}
