"""Two copies on three real nodes, one of which stops in the middle of its work."""

from __future__ import annotations

import asyncio
import random
import signal

import pytest

from gd2fs import Client
from gd2fs.testing.cluster import Cluster

KEYS = [f"key-{at}" for at in range(1_000)]
VALUES = [random.Random(at).randbytes(2_000) for at in range(1_000)]
PATHS = [f"/ns/file-{at}" for at in range(12)]
CONTENT = random.Random(0).randbytes(1 << 20)


@pytest.fixture
def cluster(tmp_path):
    options = ["--replicas", "2"]
    with Cluster(3, "128MiB", str(tmp_path), arena="plain", options=options) as nodes:
        yield nodes
        nodes.members[1].kill()  # a node that is stopped does not end when it is asked to


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "auto"])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_node_that_stops_takes_no_page_along(cluster, number, transport):
    async def get_all(client):
        pages = client.pages("ns")
        rooms = [bytearray(2_000) for _ in KEYS]
        gets = [
            pages.aget([key], [room], timeout_s=600) for key, room in zip(KEYS, rooms, strict=True)
        ]
        cluster.members[1].send(number)
        results = await asyncio.gather(*gets)
        assert all(result.sizes == [2_000] for result in results)
        return rooms

    with Client(cluster.cp, cluster=cluster.name, transport=transport) as client:
        assert client.pages("ns").put(KEYS, VALUES).copies == [2] * len(KEYS)

        assert asyncio.run(get_all(client)) == VALUES

        stored = client.pages("ns").put(["later"], [b"value"])
        assert (list(stored), stored.copies) == ([True], [2])


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_files_are_read_while_a_node_is_stopped(cluster, transport):
    with Client(cluster.cp, cluster=cluster.name, transport=transport) as client:
        for path in PATHS:
            client.put(path, CONTENT, chunk_bytes=1 << 16)
        cluster.members[1].send(signal.SIGSTOP)

        seen = [client.get(path, timeout_s=60) for path in PATHS]

        assert seen == [CONTENT] * len(seen)
