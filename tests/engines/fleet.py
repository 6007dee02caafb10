"""Measure a fleet on this CPU: `python -m engines.fleet ENGINE [OPTION...]`.

Makes the engine's environment and a model, then runs `gd2fs bench topology` with all that an engine
needs without a GPU. Options go to it, and win over those that are given here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engines.environments import PLACE, SOURCES, Environment, build_wheel, locked, run

MAKE_S = 300.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What an engine needs to be measured here.

    Attributes:
        model: Name of the checkpoint, a folder of ``build/engines/models``.
        maker: Its program in the engine's folder, and what it is told after the folder.
        options: Of `gd2fs bench topology`.
        variables: Of its environment.
    """

    model: str
    maker: Sequence[str]
    options: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


FLEETS = {
    "sglang": Fleet(
        "wide",
        ("checkpoint.py", "wide"),
        ("--page-tokens", "16"),
        {
            "PYTHONPATH": str(SOURCES / "sglang" / "cpu"),
            "TORCH_EXTENSIONS_DIR": str(PLACE / "extensions"),
        },
    ),
    "vllm": Fleet(
        "smollm2",
        ("model.py",),
        ("--spec", "engines.vllm.cpu_spec:HostCopySpec"),
        {"PYTHONPATH": str(SOURCES.parent)},
    ),
}


def main(arguments: Sequence[str]) -> int:
    engine, *options = arguments or [""]
    if engine not in FLEETS:
        print(f"error: no engine `{engine}`; there are {', '.join(FLEETS)}", file=sys.stderr)
        return 2
    environment, fleet = Environment(engine), FLEETS[engine]
    environment.make_ready(build_wheel())
    model = made_model(environment, fleet)
    program = Path(sys.executable).with_name("gd2fs")
    command = [str(program), "bench", "topology", "--engine", engine, "--cpu"]
    command += ["--python", str(environment.python), "--model", str(model), "--dtype", "float32"]
    command += [*fleet.options, *options]
    return subprocess.run(command, env={**os.environ, **fleet.variables}, check=False).returncode


def made_model(environment: Environment, fleet: Fleet) -> Path:
    """Folder of the checkpoint, made once."""
    folder = PLACE / "models" / fleet.model
    folder.parent.mkdir(parents=True, exist_ok=True)
    program, *words = fleet.maker
    with locked(folder.with_suffix(".lock")):
        if not (folder / "made").is_file():
            maker = str(environment.tests / program)
            run([str(environment.python), maker, str(folder), *words], MAKE_S)
            (folder / "made").touch()
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
