"""Stands in for sgl-kernel, whose build for the CPU is not on PyPI.

SGLang imports names from it at its start and calls none of them on a processor without AMX; here
a call would say so.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.4.10"  # what SGLang 0.5.23 checks for


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*arguments: Any, **options: Any) -> None:
        raise NotImplementedError(f"sgl_kernel.{name} needs the CPU build of sgl-kernel")

    return absent
