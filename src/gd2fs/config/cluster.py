"""Cluster: the name that all who belong together are told."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gd2fs.errors import InvalidRequest

CLUSTER_BYTES_MAX = 128  # as core/limits.h says


def cluster_name(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """``given``, else ``GD2FS_CLUSTER``. Raises InvalidRequest."""
    return check_cluster(environment.get("GD2FS_CLUSTER", "") if given is None else given)


def check_cluster(name: str) -> str:
    """Return ``name`` when it can name a cluster. Raises InvalidRequest."""
    if not name:
        raise InvalidRequest(
            "no cluster is named", hint="pass `--cluster NAME`, or set `GD2FS_CLUSTER`"
        )
    if not name.isprintable() or len(name.encode()) > CLUSTER_BYTES_MAX:
        raise InvalidRequest(
            f"`{name}` cannot name a cluster", hint=f"1 to {CLUSTER_BYTES_MAX} printable bytes"
        )
    return name
