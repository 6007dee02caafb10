"""Properties: any sequence of calls gives what the reference in memory gives.

On nodes with room for everything the answers are equal. On nodes with far too little, each answer
is right or a miss.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gd2fs import Client, InvalidRequest
from gd2fs.testing import LocalNodes, MemoryStore

MIB = 1 << 20
CHUNK = 64 << 10

SETTINGS = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

SHORT = settings(SETTINGS, max_examples=8)

names = st.sampled_from(["a", "b", "a/b", "é"])
keys = st.lists(st.sampled_from([b"k0", b"k1", b"k2", b"\0", b"\xff/"]), max_size=6)
edges = st.sampled_from([0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
positions = st.one_of(edges, st.integers(0, 3 * CHUNK))
seeds = st.integers(0, 2**16)

_numbers = itertools.count(1)


def bytes_of(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def answer(call: Callable[[], Any]) -> Any:
    """What a call came to: its value, or that it was refused."""
    try:
        return call()
    except InvalidRequest:
        return InvalidRequest


class Agreement(RuleBasedStateMachine):
    """Every rule does the same to both stores; both answer the same."""

    client: Client

    def __init__(self) -> None:
        super().__init__()
        self.namespace = f"property-{next(_numbers)}"
        self.stores = (MemoryStore(), self.client)

    def teardown(self) -> None:
        self.client.clear(self.namespace)

    def agree(self, use: Callable[[Any], Any]) -> None:
        expected, actual = (answer(lambda store=store: use(store)) for store in self.stores)
        assert actual == expected

    def path(self, name: str) -> str:
        return f"/{self.namespace}/{name}"

    @rule(name=names, if_absent=st.booleans())
    def create(self, name, if_absent):
        def use(store):
            file = store.create(self.path(name), chunk_bytes=CHUNK, if_absent=if_absent)
            return (file.size, file.chunk_bytes, file.ttl_s)

        self.agree(use)

    @rule(name=names, offset=positions, size=positions, seed=seeds)
    def write(self, name, offset, size, seed):
        self.agree(lambda store: store.write(self.path(name), offset, bytes_of(seed, size)))

    @rule(name=names, sizes=st.lists(positions, max_size=3), seed=seeds)
    def append(self, name, sizes, seed):
        parts = [bytes_of(seed + index, size) for index, size in enumerate(sizes)]
        self.agree(lambda store: store.append(self.path(name), parts))

    @rule(name=names, size=positions, seed=seeds)
    def put(self, name, size, seed):
        content = bytes_of(seed, size)
        self.agree(lambda store: store.put(self.path(name), content, chunk_bytes=CHUNK))

    @rule(name=names, offset=positions, sizes=st.lists(positions, max_size=3))
    def read(self, name, offset, sizes):
        def use(store):
            into = [bytearray(size) for size in sizes]
            count = store.read(self.path(name), offset, into)
            return count, b"".join(into)[: count or 0]

        self.agree(use)

    @rule(name=names)
    def get(self, name):
        self.agree(lambda store: store.get(self.path(name)))

    @rule(name=names)
    def stat(self, name):
        def use(store):
            file = store.stat(self.path(name))
            return file and (file.size, file.chunk_bytes, file.ttl_s)

        self.agree(use)

    @rule(name=names, size=positions)
    def truncate(self, name, size):
        self.agree(lambda store: store.truncate(self.path(name), size))

    @rule(name=names)
    def unlink(self, name):
        self.agree(lambda store: store.unlink(self.path(name)))

    @rule(prefix=st.sampled_from(["", "a", "a/", "c"]), after=names, limit=st.integers(1, 5))
    def list_files(self, prefix, after, limit):
        self.agree(lambda store: store.list(self.path(prefix), after=self.path(after), limit=limit))

    @rule(keys=keys, size=st.one_of(st.just(CHUNK), st.integers(1, 2 * CHUNK)), seed=seeds)
    def put_pages(self, keys, size, seed):
        values = [bytes_of(seed + index, size) for index in range(len(keys))]
        if len(set(keys)) == len(keys):  # which of two values in one batch comes first is open
            self.agree(lambda store: store.pages(self.namespace).put(keys, values))

    @rule(keys=keys)
    def get_pages(self, keys):
        def use(store):
            into = [bytearray(2 * CHUNK) for _ in keys]
            sizes = store.pages(self.namespace).get(keys, into).sizes
            return [
                None if size is None else bytes(buffer[:size])
                for size, buffer in zip(sizes, into, strict=True)
            ]

        self.agree(use)

    @rule(keys=keys)
    def exists(self, keys):
        self.agree(lambda store: store.pages(self.namespace).exists(keys))

    @rule(keys=keys)
    def drop(self, keys):
        self.agree(lambda store: store.pages(self.namespace).drop(list(dict.fromkeys(keys))))

    @rule(after=st.sampled_from([b"", b"\0", b"k1", b"z"]), limit=st.integers(1, 5))
    def list_pages(self, after, limit):
        self.agree(lambda store: store.pages(self.namespace).list(after=after, limit=limit))

    @rule()
    def clear(self):
        def use(store):
            store.clear(self.namespace)

        self.agree(use)


@pytest.mark.slow
def test_the_client_agrees_with_the_reference(client):
    machine = type("Machine", (Agreement,), {"client": client})

    run_state_machine_as_test(machine, settings=SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rdma_tcp_client", "rdma_shm_client"])
def test_by_one_sided_transfers_too(request, name):
    machine = type("Machine", (Agreement,), {"client": request.getfixturevalue(name)})

    run_state_machine_as_test(machine, settings=SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_on_a_small_arena_answers_are_right_or_misses(seed):
    world = random.Random(seed)
    counts = {"right": 0, "miss": 0}
    with LocalNodes(1, memory_bytes=8 * MIB) as nodes, nodes.client(timeout_s=20.0) as client:
        reference = MemoryStore()
        for _ in range(300):
            step = world.choice([put_pages, get_pages, change_file, change_file, read_file])
            step(world, client, reference, counts)

    assert counts["right"] > 20
    assert counts["miss"] > 20


def put_pages(world, client, reference, counts) -> None:
    key = b"%d" % world.randrange(40)
    value = key * (world.randrange(10_000, 500_000) // len(key))
    if not reference.pages("ns").exists([key]).leading:
        reference.pages("ns").put([key], [value])
    # The same key always has the same value, as keys of content have.
    into = bytearray(500_000)
    size = reference.pages("ns").get([key], [into]).sizes[0]
    client.pages("ns").put([key], [into[:size]])


def get_pages(world, client, reference, counts) -> None:
    keys = [b"%d" % number for number in world.sample(range(40), 5)]
    into = [bytearray(500_000) for _ in keys]
    expected = [bytearray(500_000) for _ in keys]
    sizes = client.pages("ns").get(keys, into).sizes
    right = reference.pages("ns").get(keys, expected).sizes
    for index, size in enumerate(sizes):
        counts["miss" if size is None else "right"] += 1
        if size is not None:
            assert (size, into[index][:size]) == (right[index], expected[index][:size])


def change_file(world, client, reference, counts) -> None:
    path = f"/ns/{world.randrange(6)}"
    content = world.randbytes(world.randrange(400_000))
    file = client.stat(path)
    if file is None or world.random() < 0.2:
        client.put(path, content, chunk_bytes=CHUNK)
        reference.put(path, content)
    else:
        assert file.size == reference.stat(path).size
        offset = world.randrange(file.size + 1)
        client.write(path, offset, content)
        reference.write(path, offset, content)


def read_file(world, client, reference, counts) -> None:
    path = f"/ns/{world.randrange(6)}"
    into, expected = bytearray(1 << 20), bytearray(1 << 20)
    offset = world.randrange(500_000)
    size = client.read(path, offset, into)
    right = reference.read(path, offset, expected)
    counts["miss" if size is None else "right"] += 1
    if size is not None:
        assert (size, into[:size]) == (right, expected[:size])
