"""What the tests of SGLang start from: nodes of GD2FS, and the host cache for the CPU."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.environments import PLACE

from gd2fs.engines.sglang.launch import cpu_variables
from gd2fs.testing import LocalNodes

CPU = Path(__file__).resolve().parent / "cpu"  # stand-ins for what needs an accelerator

sys.path.insert(0, str(CPU))
# Before SGLang is imported. What it compiles is compiled once, for tests and servers.
os.environ.update(cpu_variables() | {"TORCH_EXTENSIONS_DIR": str(PLACE / "extensions")})

_tags = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def _on_cpu() -> None:
    """As SGLang's processes do it themselves."""
    import sglang_on_cpu

    sglang_on_cpu.put_in()


@pytest.fixture(scope="session")
def nodes() -> Iterator[LocalNodes]:
    with LocalNodes(2, memory_bytes=256 << 20) as nodes:
        yield nodes


@pytest.fixture
def store_settings(nodes: LocalNodes) -> dict[str, Any]:
    """Settings of the plug-in: with a tag that no other test uses, and patient."""
    deadlines = dict.fromkeys(("lookup_timeout_s", "load_timeout_s", "store_timeout_s"), 10.0)
    own = {"cp": nodes.cp, "cluster": nodes.cluster, "tag": f"test-{next(_tags)}"}
    return {**own, **deadlines, "never_slower": False}
