"""The suite's namespaces: made for one run, and taken down however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.network import FOLDER, PREFIX, Network, remove_leftovers, why_not

REASON = why_not()
TESTS = str(Path(__file__).resolve().parent.parent)
MAKER = """
import sys
from chaos.network import Network
with Network() as network:
    network.add("a", 1)
    print("ready", flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture
def maker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has made namespaces and waits."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"PYTHONPATH": TESTS}
    with subprocess.Popen([sys.executable, "-c", MAKER], env=environment, **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        yield child
        child.kill()


def namespaces_of(pid: int) -> list[str]:
    return [path.name for path in FOLDER.glob(f"{PREFIX}{pid}-*")]


def test_namespaces_go_with_the_run():
    with Network() as network:
        network.add("a", 1)
        assert namespaces_of(os.getpid())

    assert namespaces_of(os.getpid()) == []


def test_namespaces_go_after_an_interrupt(maker):
    assert namespaces_of(maker.pid)

    maker.send_signal(signal.SIGINT)
    maker.wait(10)

    assert namespaces_of(maker.pid) == []


def test_what_a_killed_run_has_left_goes_with_the_next_one(maker):
    maker.kill()
    maker.wait(10)
    assert namespaces_of(maker.pid)

    remove_leftovers()

    assert namespaces_of(maker.pid) == []


def test_packets_are_dropped_in_one_direction_only():
    with Network() as network:
        network.add("a", 1)
        network.add("b", 2)
        network.drop_to("b", [f"ip saddr {network.address('a')} meta l4proto udp drop"])

        assert network.inside("a", lambda: _arrives(network, "a", "b")) is False
        assert network.inside("b", lambda: _arrives(network, "b", "a")) is True


def _arrives(network: Network, sender: str, receiver: str) -> bool:
    """Whether a datagram gets from one host, in which this runs, to the other."""
    plug = network.inside(receiver, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with plug, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source:
        plug.bind((network.address(receiver), 9))
        plug.settimeout(0.3)
        source.sendto(b"x", (network.address(receiver), 9))
        try:
            return plug.recv(1) == b"x"
        except TimeoutError:
            return False
