"""The stores that keep the contract: the reference in memory, and live clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gd2fs import Client
from gd2fs.testing import MemoryStore

STORES = [
    *("memory", "one_node_client", "shm_client", "unix_client", "tcp_client", "tls_client"),
    *("rdma_tcp_client", "rdma_shm_client"),
]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[MemoryStore | Client]:
    if request.param == "memory":
        with MemoryStore() as memory:
            yield memory
    else:
        yield request.getfixturevalue(request.param)
