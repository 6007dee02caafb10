"""Nodes of a list, killed and started empty one after the other: with two copies nothing goes."""

from __future__ import annotations

import time

from gd2fs import Client
from gd2fs.testing.cluster import Cluster

PAGE_BYTES = 32 << 10
PAGES = 300
FILL_S = 30.0

PATHS = [f"/files/{number}" for number in range(60)]
KEYS = [f"key{number}" for number in range(PAGES)]
VALUES = [number.to_bytes(4, "big") * (PAGE_BYTES // 4) for number in range(PAGES)]


def test_every_node_may_be_restarted_in_turn(tmp_path):
    with (
        Cluster(3, "64MiB", str(tmp_path), arena="plain", options=["--replicas", "2"]) as cluster,
        Client(cluster.cp, cluster=cluster.name) as client,
    ):
        for number, path in enumerate(PATHS):
            client.put(path, VALUES[number])
        assert all(client.pages("kv").put(KEYS, VALUES))
        for node in cluster.members:
            before = free_bytes(client, node.name)
            node.kill()
            node.start()
            wait_until_filled(client, node.name, before)
        into = [bytearray(PAGE_BYTES) for _ in KEYS]
        assert client.pages("kv").get(KEYS, into).sizes == [PAGE_BYTES] * PAGES
        assert into == VALUES
        assert [client.get(path) for path in PATHS] == VALUES[: len(PATHS)]


def free_bytes(client: Client, name: str) -> int:
    """Of one node's arena; all of it while the node does not answer."""
    status = next(each for each in client.ping() if each.name == name)
    return status.arena_free_bytes if status.state == "active" else 1 << 62


def wait_until_filled(client: Client, name: str, before: int) -> None:
    """Until a node has as much as it had. Records of extents take a few grains more or less."""
    end = time.monotonic() + FILL_S
    while free_bytes(client, name) > before + (64 << 10) * 8:
        assert time.monotonic() < end, f"{name} did not get its copies again"
        time.sleep(0.02)
    while any(each.moves_left + each.records_left for each in client.ping()):
        assert time.monotonic() < end, "the moves did not end"
        time.sleep(0.02)
