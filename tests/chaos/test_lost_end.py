"""A client ends while nobody can hear it: the node finds out by itself."""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chaos.network import Network, why_not
from chaos.process import Process

REASON = why_not()
NOTICED_S = 30.0
CLIENT = """
import sys
from gd2fs import Client
with Client("10.77.0.1:7527", cluster="lost") as client:
    client.put("/lost/file", b"bytes")
    print("ready", flush=True)
    sys.stdin.read()
"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as made:
        made.add("n", 1)
        made.add("c", 2)
        yield made


def start(network: Network, name: str, folder: Path, *words: str) -> Process:
    command = [sys.executable, *words]
    process = Process(name, command, folder / f"{name}.log", network.enter(name))
    process.wait_ready()
    return process


def connections(network: Network) -> float:
    def fetch() -> str:
        with closing(urllib.request.urlopen("http://127.0.0.1:9527/metrics", timeout=5)) as page:
            return page.read().decode()

    lines = network.inside("n", fetch).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("gd2fs_connections "))


def test_the_streams_of_a_client_that_vanished_are_closed(network, tmp_path):
    serve = ("-m", "gd2fs", "serve", "--cluster", "lost", "--name", "n", "--memory", "64MiB")
    serve += ("--arena", "memfd")
    listen = ("--listen", "tcp://10.77.0.1:7527", "--insecure", "--admin", "127.0.0.1:9527")
    node = start(network, "n", tmp_path, *serve, *listen)
    client = start(network, "c", tmp_path, "-c", CLIENT)
    try:
        assert connections(network) > 0

        network.set_cable("c", is_up=False)
        client.kill()

        end = time.monotonic() + NOTICED_S
        while connections(network) > 0:
            assert time.monotonic() < end, "the node still has its streams"
            time.sleep(0.1)
    finally:
        client.kill()
        node.kill()
