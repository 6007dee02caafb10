"""Versions: the releases of vLLM that this plug-in is known to fit, and what they call things.

The interface is experimental: names and signatures change between releases, and so may the
meaning of a page's bytes. A release that nobody has looked at is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gd2fs.errors import InvalidRequest

FIRST, LAST = (0, 31), (0, 33)  # of the releases that are known, both included
# Keys and values of a head lie side by side in a block since 0.26. Raised when that changes; pages
# of other packings are in other namespaces.
KV_PACKING = {(0, 31): 1, (0, 32): 1, (0, 33): 1}


def window() -> str:
    """The known releases, for people and for the record that instances compare."""
    return f"{_dotted(FIRST)} to {_dotted(LAST)}"


def release_of(version: str) -> tuple[int, int]:
    """Major and minor of ``0.32.0+cpu``; zeros where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def is_known(version: str) -> bool:
    """Whether this plug-in fits."""
    return release_of(version) in KV_PACKING


def check_version(version: str) -> tuple[int, int]:
    """The release of ``version``.

    Raises:
        InvalidRequest: It is not one of those that are known.
    """
    if not is_known(version):
        raise InvalidRequest(
            f"vLLM {version} is not known to this plug-in, which fits {window()}",
            hint="install a release of vLLM or of gd2fs that fit each other",
        )
    return release_of(version)


def slots_of(job: Any) -> Sequence[int]:
    """Where the chunks of a job lie in the pool: named ``block_ids`` by older releases.

    Raises:
        InvalidRequest: The job has neither name.
    """
    slots = getattr(job, "chunk_ids", None)
    if slots is None:
        slots = getattr(job, "block_ids", None)
    if slots is None:
        raise InvalidRequest(
            "a transfer of vLLM names no chunks", hint=f"use a release of {window()}"
        )
    return slots.tolist() if hasattr(slots, "tolist") else list(slots)


def _dotted(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
