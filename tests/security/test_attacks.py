"""Attacks before a stream has proven anything: the node serves on, its memory stays flat, and each
of them is counted by its reason."""

from __future__ import annotations

import contextlib
import random
import resource
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gd2fs import Client, _core
from gd2fs.errors import InvalidRequest
from gd2fs.testing import LocalNodes
from gd2fs.testing.cluster import Cluster
from security.conversation import Recorder, hear_all
from security.guarded import A_READER, MAIN, holder

PATIENCE_S = 20.0
HALF_OPEN = 10_000
AT_ONCE = 400  # sockets of the attacker at a time
PAGE = b"p" * 10_000
GROWTH_BYTES_MAX = 8 << 20


def target_of(nodes: LocalNodes) -> tuple[str, int]:
    host, port = nodes.peers[0].addresses[0].split(":")
    return host, int(port)


def connect(target: tuple[str, int], source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(target, timeout=PATIENCE_S, source_address=(source, 0))


def eventually(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.01)
    return True


@contextlib.contextmanager
def served(client: Client) -> Iterator[list[int]]:
    """A client that goes on putting and getting meanwhile; how often it was served."""
    rounds: list[int] = []
    is_over = threading.Event()
    faults: list[Exception] = []

    def go_on() -> None:
        pages = client.pages("a")
        try:
            while not is_over.is_set():
                key = f"{len(rounds) % 16}".encode()  # memory of the arena is touched once
                into = bytearray(len(PAGE))
                pages.drop([key])
                pages.put([key], [PAGE])
                assert pages.get([key], [into]).leading == 1 and into == PAGE
                rounds.append(1)
        except Exception as fault:
            faults.append(fault)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield rounds
    finally:
        is_over.set()
        thread.join()
    assert not faults


@pytest.mark.slow
def test_garbage_of_a_port_scanner_harms_nobody(lone_guarded):
    [server] = lone_guarded.servers
    seen = random.Random(7)
    openings = (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-x\r\n",
        b"\x00" * 600,
        b"\xff" * 600,
        b"*1\r\n$4\r\nPING\r\n",
        b"\n",
        b"",
    )
    with lone_guarded.client(token=MAIN.token, timeout_s=PATIENCE_S) as client, served(client):
        for at in range(300):
            with connect(target_of(lone_guarded)) as attacker:
                opening = openings[at % len(openings)] + seen.randbytes(seen.randrange(200))
                with contextlib.suppress(OSError):
                    attacker.sendall(opening)
                    attacker.shutdown(socket.SHUT_WR)
                hear_all(attacker)

    counts = server.counts()
    assert counts["refused_bad_hello"] + counts["refused_left"] == 300
    assert counts["refused_bad_hello"] > 200 and eventually(
        lambda: server.counts()["strangers"] == 0
    )


def memory_of(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


@pytest.mark.slow
def test_ten_thousand_half_open_connections_leave_memory_flat_and_service_unharmed(tmp_path):
    token = tmp_path / "token"
    token.write_text(MAIN.token.as_text())
    options = ("--token-file", str(token))
    with Cluster(1, "64MiB", str(tmp_path), arena="plain", options=options) as cluster:
        [node] = cluster.members
        target = ("127.0.0.1", node.port)
        with Client(cluster.cp, cluster="test", token_file=token, transport="tcp") as client:
            warm(target)
            before = memory_of(node.process.pid)

            with served(client) as rounds:
                most = flood(target, node.process.pid)

            assert most - before < GROWTH_BYTES_MAX and rounds
        with Client(cluster.cp, cluster="test", token_file=token, timeout_s=PATIENCE_S) as client:
            client.pages("a").put([b"after"], [PAGE])


def warm(target: tuple[str, int]) -> None:
    """What the first strangers cost once is no growth."""
    attackers = [connect(target, "127.0.0.3") for _ in range(64)]
    for attacker in attackers:
        attacker.close()


def flood(target: tuple[str, int], pid: int) -> int:
    """Open and abandon; the most memory that the node had meanwhile."""
    most = 0
    attackers: list[socket.socket] = []
    for at in range(HALF_OPEN):
        with contextlib.suppress(OSError):
            attackers.append(connect(target, f"127.7.{at % 40}.1"))
        if len(attackers) == AT_ONCE:
            most = max(most, memory_of(pid))
            for attacker in attackers:
                attacker.close()
            attackers.clear()
    for attacker in attackers:
        attacker.close()
    return most


@pytest.mark.slow
def test_silent_connections_are_bounded_by_source_and_ended_in_time(lone_guarded):
    [server] = lone_guarded.servers
    attackers = [connect(target_of(lone_guarded), "127.7.0.1") for _ in range(200)]

    assert eventually(lambda: server.counts()["refused_too_many"] == 200 - 64)
    assert server.counts()["strangers"] <= 64
    with lone_guarded.client(token=MAIN.token, timeout_s=PATIENCE_S) as client:
        client.pages("a").put([b"k"], [PAGE])
    assert eventually(lambda: server.counts()["refused_timeout"] == 64)
    assert eventually(lambda: server.counts()["strangers"] == 0)
    for attacker in attackers:
        attacker.close()


@pytest.mark.slow
def test_a_source_that_comes_to_nothing_too_often_waits(lone_guarded):
    [server] = lone_guarded.servers
    target = target_of(lone_guarded)
    for _ in range(3_000):
        with connect(target, "127.7.0.2") as attacker:
            attacker.close()

    assert server.counts()["refused_rate"] > 0
    with lone_guarded.client(token=MAIN.token, timeout_s=PATIENCE_S) as client:
        client.pages("a").put([b"k"], [PAGE])


WRONG = {
    "of the same name": lambda: holder(MAIN.token.name, "read").token,
    "that nobody knows": lambda: holder("nobody", "read").token,
    "none": lambda: "",
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_a_wrong_token_is_refused_at_once_and_counted(lone_guarded, make):
    [server] = lone_guarded.servers
    begin = time.monotonic()

    with pytest.raises(InvalidRequest, match="token") as refusal:
        lone_guarded.client(token=make(), transport="tcp")

    counts = server.counts()
    reasons = ("no_token", "unknown_token", "wrong_proof")
    assert sum(counts[f"refused_{reason}"] for reason in reasons) >= 1
    assert MAIN.token.secret not in str(refusal.value) and time.monotonic() - begin < PATIENCE_S


@pytest.fixture
def recorded(lone_guarded) -> Recorder:
    """A conversation that went well, as somebody between the two has heard it."""
    with Recorder(target_of(lone_guarded)) as recorder:
        core = _core.Client(
            [recorder.address],
            "test",
            token=A_READER.token.as_text(),
            io_threads=1,
            streams=1,
            transport="tcp",
        )
        core.close()
        assert eventually(lambda: len(recorder.answered) > 200)
    return recorder


def test_a_replayed_handshake_proves_nothing(lone_guarded, recorded):
    [server] = lone_guarded.servers
    with connect(target_of(lone_guarded)) as attacker:
        attacker.sendall(recorded.said)
        heard = hear_all(attacker)

    assert b"its secret is another one" in heard
    assert eventually(lambda: server.counts()["refused_wrong_proof"] == 1)


def test_a_node_that_replays_a_handshake_is_none_of_the_clients(recorded):
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def answer() -> None:
            with contextlib.suppress(OSError):
                near, _ = impostor.accept()
                near.sendall(recorded.answered)
                hear_all(near)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InvalidRequest, match="does not know this token"):
            Client(
                f"127.0.0.1:{impostor.getsockname()[1]}",
                cluster="test",
                token=A_READER.token,
                transport="tcp",
            )


@pytest.mark.slow
def test_a_handshake_that_is_cut_anywhere_leaves_nothing_behind(lone_guarded, recorded):
    [server] = lone_guarded.servers
    said = bytes(recorded.said)
    begun = server.counts()["refused"]
    for length in range(0, len(said), 3):
        with connect(target_of(lone_guarded)) as attacker:
            attacker.sendall(said[:length])
            attacker.shutdown(socket.SHUT_WR)
            hear_all(attacker)

    cuts = len(range(0, len(said), 3))
    counts = server.counts()
    assert counts["refused_left"] + counts["refused"] - begun == cuts
    assert eventually(lambda: server.counts()["strangers"] == 0)


def test_a_bent_bit_of_a_proof_or_a_hello_is_refused(lone_guarded, recorded):
    said = bytes(recorded.said)
    seen = random.Random(3)
    for _ in range(60):
        bent = bytearray(said)
        bent[seen.randrange(len(bent))] ^= 1 << seen.randrange(8)
        with connect(target_of(lone_guarded)) as attacker:
            attacker.sendall(bent)
            attacker.shutdown(socket.SHUT_WR)
            assert b"GD2F" not in hear_all(attacker)[-64:]

    assert lone_guarded.servers[0].counts()["requests"] == 0
