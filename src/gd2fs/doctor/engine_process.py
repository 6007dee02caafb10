"""Engine process: a running SGLang or vLLM server, and the flags that it was started with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gd2fs.doctor.machine import Machine, Process

MODULES = {"sglang": "sglang.launch_server", "vllm": "vllm.entrypoints.openai.api_server"}


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """One server. ``flags``: with their values, empty for those without one; the last one wins."""

    pid: int
    flags: Mapping[str, str]
    environment: Mapping[str, str]

    def json(self, flag: str) -> Mapping[str, Any]:
        """The object that a flag's value is; empty when it is none, or lies in a file."""
        try:
            value = json.loads(self.flags.get(flag, ""))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def engines_here(machine: Machine, engine: str) -> list[EngineProcess]:
    """Servers of ``engine`` that run on this machine, and are not children of one."""
    return [
        EngineProcess(each.pid, flags_of(each.words), each.environment)
        for each in machine.processes()
        if _is_server(each, engine)
    ]


def flags_of(words: Sequence[str]) -> dict[str, str]:
    """``--a 1 --b --c=2`` as ``{"--a": "1", "--b": "", "--c": "2"}``."""
    flags: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            follower = words[at + 1] if at + 1 < len(words) else "--"
            is_alone = follower.startswith("--")
            flags[name.replace("_", "-")] = value if equals else "" if is_alone else follower
    return flags


def _is_server(process: Process, engine: str) -> bool:
    words = process.words
    if MODULES[engine] in words:
        return True
    names = [os.path.basename(word) for word in words[:3]]
    return engine in names and "serve" in words
