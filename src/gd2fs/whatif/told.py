"""Told: what a node says of its curves, in answer to ``{"do": "curves"}``. It fits one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHARE_DIGITS = 4
NAMESPACES_MAX = 64  # as core/node.cc tells them: 2 KiB each, of 256


def told_of(curves: Mapping[str, Any]) -> dict[str, Any]:
    """As ``Server.curves`` gives them, as JSON can hold them."""
    namespaces = [
        each
        | {
            "name": each["name"].decode("utf-8", "backslashreplace"),
            "looks": round(each["looks"]),
            "found": round(each["found"]),
            "piece_bytes": round(each["piece_bytes"]),
            "shares": [round(share, SHARE_DIGITS) for share in each["shares"]],
        }
        for each in curves["namespaces"][:NAMESPACES_MAX]
    ]
    return {**curves, "namespaces": namespaces}
