"""The proxy of the suite: what it does to the bytes that pass it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gd2fs.testing.cluster import free_ports

TESTS = str(Path(__file__).resolve().parent.parent)
SILENT_S = 0.2
PATIENT_S = 20.0


class Bench:
    """A proxy in front of a server that this test is."""

    def __init__(self) -> None:
        self._port, back = free_ports(2)
        self._server = socket.create_server(("127.0.0.1", back))
        self._server.settimeout(PATIENT_S)
        ends = (f"127.0.0.1:{self._port}", f"127.0.0.1:{back}")
        self._child = subprocess.Popen(
            [sys.executable, "-m", "chaos.proxy", *ends, "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": TESTS},
        )
        assert self._child.stdout.readline() == b"ready\n"

    def close(self) -> None:
        self._server.close()
        self._child.kill()
        self._child.communicate()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Both ends of a connection through the proxy."""
        near = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENT_S)
        far, _ = self._server.accept()
        far.settimeout(PATIENT_S)
        return near, far

    def order(self, mode: str) -> None:
        """Set a mode, and wait until it is in force."""
        self._child.stdin.write(mode.encode() + b"\n")
        self._child.stdin.flush()
        assert self._child.stdout.readline() == mode.encode() + b"\n"


def reads(plug: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = plug.recv(count - len(got))
        if not piece:
            break
        got += piece
    return got


def is_silent(plug: socket.socket) -> bool:
    plug.settimeout(SILENT_S)
    try:
        plug.recv(1)
    except TimeoutError:
        return True
    finally:
        plug.settimeout(PATIENT_S)
    return False


@pytest.fixture
def bench() -> Iterator[Bench]:
    with closing(Bench()) as made:
        yield made


def test_bytes_pass_both_ways(bench):
    near, far = bench.connect()
    with near, far:
        near.sendall(b"ask")
        assert reads(far, 3) == b"ask"

        far.sendall(b"answer")

        assert reads(near, 6) == b"answer"


def test_what_a_half_open_proxy_took_in_is_delivered_later(bench):
    near, far = bench.connect()
    with near, far:
        bench.order("half_open")
        near.sendall(b".")
        assert is_silent(far)

        bench.order("pass")

        assert reads(far, 1) == b"."


def test_stalled_connections_are_silent_while_new_ones_pass(bench):
    old_near, old_far = bench.connect()
    bench.order("stall")
    old_near.sendall(b".")
    assert is_silent(old_far)
    near, far = bench.connect()
    with old_near, old_far, near, far:
        near.sendall(b"new")
        assert reads(far, 3) == b"new"

        bench.order("pass")

        assert reads(old_far, 1) == b"."


def test_a_reset_ends_open_connections(bench):
    near, far = bench.connect()
    with near, far:
        bench.order("reset")

        with pytest.raises(ConnectionResetError):
            near.recv(1)


def test_damage_changes_bits(bench):
    near, far = bench.connect()
    with near, far:
        bench.order("damage")
        sent, got = 0, b""
        while got == b"." * sent and sent < 100_000:
            near.sendall(b".")
            sent += 1
            got += reads(far, 1)

        assert got != b"." * sent
