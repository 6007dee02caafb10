"""Tenants: what one may do; nothing of another is read, probed, listed or pushed out."""

from __future__ import annotations

import pytest

from gd2fs import Client
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.testing import LocalNodes
from security.guarded import A_ADMIN, A_READER, A_WRITER, B_ADMIN, MAIN, WATCHER, Holder

PAGE = b"p" * 10_000
TIMEOUT_S = 20.0


def client_of(nodes: LocalNodes, holder: Holder, **settings: object) -> Client:
    return nodes.client(token=holder.token, timeout_s=TIMEOUT_S, **settings)


def read(client: Client, path: str) -> bytes:
    into = bytearray(len(PAGE))
    return bytes(into[: client.read(path, 0, into)])


@pytest.fixture(scope="module")
def stored(guarded):
    """What tenant `b` has: a page and a file."""
    with client_of(guarded, B_ADMIN) as client:
        client.pages("b").put([b"there"], [PAGE])
        client.put("/b/file", PAGE)
    return guarded


CALLS = {
    "get": lambda client: client.pages("b").get([b"there"], [bytearray(len(PAGE))]),
    "get absent": lambda client: client.pages("b").get([b"none"], [bytearray(len(PAGE))]),
    "exists": lambda client: client.pages("b").exists([b"there"]),
    "exists absent": lambda client: client.pages("b").exists([b"none"]),
    "put": lambda client: client.pages("b").put([b"mine"], [PAGE]),
    "drop": lambda client: client.pages("b").drop([b"there"]),
    "list pages": lambda client: client.pages("b").list(),
    "clear": lambda client: client.clear("b"),
    "read": lambda client: client.read("/b/file", 0, bytearray(len(PAGE))),
    "read absent": lambda client: client.read("/b/none", 0, bytearray(len(PAGE))),
    "stat": lambda client: client.stat("/b/file"),
    "create": lambda client: client.create("/b/new"),
    "put file": lambda client: client.put("/b/file", b"mine"),
    "write": lambda client: client.write("/b/file", 0, b"mine"),
    "append": lambda client: client.append("/b/file", b"mine"),
    "truncate": lambda client: client.truncate("/b/file", 0),
    "unlink": lambda client: client.unlink("/b/file"),
    "list": lambda client: client.list("/b/"),
    "list all": lambda client: client.list("/"),
    "willneed": lambda client: client.fadvise("/b/file", "willneed").wait(),
    "willneed page": lambda client: client.pages("b").fadvise([b"there"], "willneed").wait(),
    "copies": lambda client: client.advise("/b/file", "willneed", replicas=2),
    "view": lambda client: client.view("b", b"there"),
    "why": lambda client: client.why("/b/file"),
    "why page": lambda client: client.why(page=("b", b"there")),
    "settings": lambda client: client.settings({"do": "show"}),
    "drain": lambda client: client.drain("n0"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_admin_of_one_namespace_is_nobody_in_another(stored, call):
    with client_of(stored, A_ADMIN) as client, pytest.raises(InvalidRequest, match="denied"):
        call(client)


def test_what_another_tenant_has_stands_as_it_was(stored):
    with client_of(stored, A_ADMIN) as client:
        for call in CALLS.values():
            with pytest.raises(GD2FSError):
                call(client)

    with client_of(stored, B_ADMIN) as client:
        assert client.pages("b").exists([b"there", b"none", b"mine"]).present == [
            True,
            False,
            False,
        ]
        assert read(client, "/b/file") == PAGE
        assert [name for name, _ in client.list("/b/").entries] == ["/b/file"]


def test_a_reader_reads_and_a_writer_writes(guarded):
    with client_of(guarded, A_WRITER) as writer, client_of(guarded, A_READER) as reader:
        writer.pages("a").put([b"k"], [PAGE])
        writer.put("/a/file", PAGE)

        into = bytearray(len(PAGE))
        assert reader.pages("a").get([b"k"], [into]).leading == 1 and into == PAGE
        assert read(reader, "/a/file") == PAGE
        for call in (
            lambda: reader.pages("a").put([b"l"], [PAGE]),
            lambda: reader.put("/a/file", b"x"),
            lambda: reader.unlink("/a/file"),
            lambda: reader.pages("a").drop([b"k"]),
        ):
            with pytest.raises(InvalidRequest, match="denied"):
                call()
        assert read(reader, "/a/file") == PAGE


def test_a_watcher_of_everything_reads_everything_and_the_nodes_but_changes_nothing(stored):
    with client_of(stored, WATCHER) as client, client_of(stored, A_ADMIN) as tenant:
        assert read(client, "/b/file") == PAGE
        assert all(node.arena_bytes for node in client.ping())
        assert not any(node.arena_bytes or node.arena_free_bytes for node in tenant.ping())
        with pytest.raises(InvalidRequest, match="denied"):
            client.unlink("/b/file")
        with pytest.raises(InvalidRequest, match="denied"):
            client.settings({"do": "show"})


def test_shared_memory_is_for_who_may_read_all_of_it(stored):
    with client_of(stored, A_ADMIN) as tenant, client_of(stored, WATCHER) as watcher:
        assert {node.transport for node in tenant.ping()} == {"unix"}
        assert {node.transport for node in watcher.ping()} == {"shm"}
    with client_of(stored, A_ADMIN, transport="shm") as client:
        assert all("cannot be shared" in node.fault for node in client.ping())


def test_a_namespace_whose_name_begins_alike_is_not_listed(guarded):
    with client_of(guarded, MAIN) as main, client_of(guarded, A_READER) as reader:
        main.put("/ab/secret", PAGE)
        main.put("/a/own", PAGE)

        names = [name for name, _ in reader.list("/a").entries]

    assert "/a/own" in names and not any(name.startswith("/ab") for name in names)


# ---- room ----------------------------------------------------------------------------------------


ARENA_BYTES = 64 << 20
QUOTA_BYTES = 16 << 20
PAGE_BYTES = 256 << 10


def fill(client: Client, namespace: str, total_bytes: int) -> list[bytes]:
    keys = [f"{at}".encode() for at in range(total_bytes // PAGE_BYTES)]
    page = bytes(PAGE_BYTES)
    for at in range(0, len(keys), 16):
        client.pages(namespace).put(keys[at : at + 16], [page] * len(keys[at : at + 16]))
    return keys


@pytest.mark.slow
def test_a_tenant_at_its_quota_pushes_out_its_own_and_nobody_elses(lone_guarded):
    [server] = lone_guarded.servers
    server.set_rules("a", quota_bytes=QUOTA_BYTES)
    with client_of(lone_guarded, B_ADMIN) as b, client_of(lone_guarded, A_WRITER) as a:
        keys = fill(b, "b", ARENA_BYTES - QUOTA_BYTES - (8 << 20))

        fill(a, "a", 3 * ARENA_BYTES)

        assert all(b.pages("b").exists(keys).present)
    taken = {name: size for name, size, *_ in server.spaces()}
    assert taken[b"a"] <= QUOTA_BYTES


@pytest.mark.slow
def test_a_tenant_evicts_of_others_no_more_than_its_quota(lone_guarded):
    [server] = lone_guarded.servers
    server.set_rules("a", quota_bytes=QUOTA_BYTES)
    with client_of(lone_guarded, B_ADMIN) as b, client_of(lone_guarded, A_WRITER) as a:
        keys = fill(b, "b", 2 * ARENA_BYTES)
        before = sum(b.pages("b").exists(keys).present) * PAGE_BYTES

        fill(a, "a", 3 * ARENA_BYTES)

        after = sum(b.pages("b").exists(keys).present) * PAGE_BYTES
    slack = ARENA_BYTES // 20  # what the background keeps free
    assert before - after <= QUOTA_BYTES + slack
