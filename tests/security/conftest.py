"""Nodes with tokens: one of the cluster, and tenants that may do something in one namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gd2fs.testing import LocalNodes
from security.guarded import MAIN, TENANTS, known


@pytest.fixture(scope="session")
def guarded() -> Iterator[LocalNodes]:
    """Two nodes; their memory can be mapped by who may read all of it."""
    with LocalNodes(2, arena="memfd", tokens=known(MAIN, *TENANTS)) as nodes:
        yield nodes


@pytest.fixture
def lone_guarded() -> Iterator[LocalNodes]:
    """One node of its own, for tests that count."""
    with LocalNodes(1, tokens=known(MAIN, *TENANTS)) as nodes:
        yield nodes
