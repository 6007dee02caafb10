"""vLLM as a stateless engine: a secondary tier for its offloading connector.

Importing this does nothing else: the engine imports it in every one of its processes, and the
launcher's arguments are of use where there is no vLLM.
"""

from __future__ import annotations

from typing import Any

__all__ = ["GD2FSTier"]


def __getattr__(name: str) -> Any:
    if name == "GD2FSTier":
        from gd2fs.engines.vllm.tier import GD2FSTier

        return GD2FSTier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
