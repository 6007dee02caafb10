"""A node is killed, and has everything again when it starts: from its arena and its log."""

from __future__ import annotations

import random

import pytest
from restart import kill_loop

from gd2fs import Client
from gd2fs.testing.cluster import Cluster

CONTENT = random.Random(1).randbytes(5 << 20)
KEYS = [f"key-{at}" for at in range(200)]
VALUES = [random.Random(at).randbytes(1 + at * 100) for at in range(200)]


def fill(cluster: Cluster) -> None:
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.pages("ns").put(KEYS, VALUES)
        client.pages("ns").drop(KEYS[:50])
        client.put("/ns/whole", CONTENT)
        client.create("/ns/parts", chunk_bytes=1 << 16)
        client.write("/ns/parts", 100_000, b"b" * 50_000)
        client.write("/ns/parts", 0, b"a" * 100_000)
        client.put("/ns/gone", b"gone")
        client.unlink("/ns/gone")


def check(cluster: Cluster) -> None:
    with Client(cluster.cp, cluster=cluster.name) as client:
        rooms = [bytearray(len(value)) for value in VALUES]
        sizes = client.pages("ns").get(KEYS, rooms).sizes
        assert sizes == [None] * 50 + [len(value) for value in VALUES[50:]]
        assert rooms[50:] == VALUES[50:]
        assert client.get("/ns/whole") == CONTENT
        assert client.get("/ns/parts") == b"a" * 100_000 + b"b" * 50_000
        assert client.get("/ns/gone") is None
        assert [name for name, _ in client.list("/ns/").entries] == ["/ns/parts", "/ns/whole"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_node_that_ended_has_its_pages_and_files_again(kept_node: Cluster, how: str):
    fill(kept_node)
    node = kept_node.members[0]

    for _ in range(2):
        getattr(node, how)()
        node.start()

        assert "recovered_pages=150 recovered_pieces=6" in node.ready_line
        assert "recovered_records=2" in node.ready_line
        check(kept_node)


@pytest.mark.slow
def test_flipped_bits_in_the_arena_are_a_miss_and_counted(kept_node: Cluster, memory_folder):
    fill(kept_node)
    node = kept_node.members[0]
    node.kill()
    arena = memory_folder / "n0"
    content = arena.read_bytes()
    at = content.index(VALUES[199][1000:1100])
    with open(arena, "r+b") as file:
        file.seek(at)
        file.write(b"wrong")

    node.start()

    with Client(kept_node.cp, cluster=kept_node.name) as client:
        room = bytearray(20_000)
        pages = client.pages("ns")
        assert pages.get(KEYS[199:], [room]).sizes == [None]
        assert pages.get(KEYS[198:199], [room]).sizes == [len(VALUES[198])]
        # Put anew it is stored anew.
        assert list(pages.put(KEYS[199:], VALUES[199:])) == [True]
        assert pages.get(KEYS[199:], [room]).sizes == [len(VALUES[199])]


@pytest.mark.slow
def test_an_arena_of_another_node_is_not_taken_over(kept_node: Cluster, memory_folder):
    fill(kept_node)
    node = kept_node.members[0]
    node.kill()
    node.command[node.command.index("--name") + 1] = "other"
    peers = node.command.index("--peers") + 1
    node.command[peers] = node.command[peers].replace("n0=", "other=")

    node.start()

    assert "recovered_pages=0" in node.ready_line
    assert "begins empty: it belongs to node `n0`" in node.last_words()
    with Client(kept_node.cp, cluster=kept_node.name) as client:
        assert client.pages("ns").exists(KEYS).leading == 0
        assert client.get("/ns/whole") is None


@pytest.mark.slow
def test_nothing_is_wrong_lost_or_back_after_any_kill(kept_node: Cluster):
    assert kill_loop.run(kept_node, rounds=6, seed=1) == []
