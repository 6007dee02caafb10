"""NUMA: what a node says of how its memory lies on a machine that has several nodes of memory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gd2fs.sizes import format_bytes

NUMA = ("auto", "off")

log = logging.getLogger(__name__)


def tell_spread(spread: Mapping[str, Any]) -> None:
    """Log it; nothing where all memory is alike.

    Args:
        spread: As the native server says it.
    """
    if not spread["bytes"]:
        return
    shares = ", ".join(f"{format_bytes(size)} at {node}" for node, size in spread["bytes"].items())
    if spread["fault"]:
        log.warning(
            "memory should lie at its NUMA nodes, %s, and pages cannot be asked for there (%s): "
            "whoever touches one first decides",
            shares,
            spread["fault"],
        )
    else:
        log.info("memory lies at its NUMA nodes: %s", shares)
