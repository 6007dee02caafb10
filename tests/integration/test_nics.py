"""Several NICs: a node and a client in network namespaces of their own, joined by two cables."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

MEMORY = "640MiB"  # 1/64 of it may be half-written by one stream: two pieces of 4 MiB
READY_S = 30.0
RUN_S = 60.0
MIB = 1 << 20
# What every script in the client's namespace begins with.
HEAD = f"""
import random, subprocess, sys, time
from gd2fs import Client
MIB = {MIB}
value = random.Random(7).randbytes(64 * MIB)
def connect(**settings):
    return Client("10.91.1.2:7527", cluster="nics", dp="tcp://10.91.1.1,tcp://10.91.2.1",
                  timeout_s=30.0, **settings)
def sent(cable):
    return int(open(f"/sys/class/net/{{cable}}/statistics/tx_bytes").read())
def received(cable):
    return int(open(f"/sys/class/net/{{cable}}/statistics/rx_bytes").read())
def ip(*words):
    subprocess.run(["ip", *words], check=True)
"""


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def why_not() -> str:
    """Why no namespaces can be made here; empty when they can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "needs root and `ip` (iproute2) to make network namespaces"
    name = f"gd2fs-try-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "add", "c1", "type", "veth", "peer", "name", "s1")
    except subprocess.CalledProcessError as error:
        return f"cannot make network namespaces: {error.stderr.decode().strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return ""


REASON = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(REASON), reason=REASON)]


@dataclass
class Cables:
    """Two namespaces; cable ``i`` joins 10.91.i.1 (``ci``, the client's) and 10.91.i.2 (``si``)."""

    client: str
    server: str

    def script(self, body: str) -> str:
        """Run Python in the client's namespace; what it prints."""
        code = HEAD + textwrap.dedent(body)
        done = subprocess.run(
            ["ip", "netns", "exec", self.client, sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture
def cables() -> Iterator[Cables]:
    names = Cables(f"gd2fs-c-{os.getpid()}", f"gd2fs-s-{os.getpid()}")
    try:
        for name in (names.client, names.server):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for cable in (1, 2):
            near, far = ("ip", "-n", names.client), ("ip", "-n", names.server)
            peer = ("peer", "name", f"s{cable}", "netns", names.server)
            run(*near, "link", "add", f"c{cable}", "type", "veth", *peer)
            run(*near, "addr", "add", f"10.91.{cable}.1/24", "dev", f"c{cable}")
            run(*far, "addr", "add", f"10.91.{cable}.2/24", "dev", f"s{cable}")
            run(*near, "link", "set", f"c{cable}", "up")
            run(*far, "link", "set", f"s{cable}", "up")
        yield names
    finally:
        for name in (names.client, names.server):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def node(cables: Cables, tmp_path: Path) -> Iterator[None]:
    command = ["ip", "netns", "exec", cables.server, sys.executable, "-m", "gd2fs", "serve"]
    command += ["--cluster", "nics", "--name", "n", "--memory", MEMORY, "--arena", "plain"]
    command += ["--listen", "tcp://10.91.1.2:7527,tcp://10.91.2.2:7527", "--insecure"]
    command += ["--peers", "n=10.91.1.2:7527+10.91.2.2:7527"]
    with open(tmp_path / "node.log", "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    with contextlib.closing(process.stdout):
        try:
            line = process.stdout.readline()
            assert line.startswith("ready"), (tmp_path / "node.log").read_text()
            yield
        finally:
            process.terminate()
            process.wait(READY_S)


@pytest.mark.usefixtures("node")
def test_both_nics_carry_a_page_a_file_and_a_batch_both_ways(cables):
    out = cables.script(
        """
        with connect() as client:
            def both_grow(counter, move):
                before = [counter(cable) for cable in ("c1", "c2")]
                move()
                grown = [counter(c) - b for c, b in zip(("c1", "c2"), before)]
                assert min(grown) > 8 * MIB, grown
            pages = client.pages("nics")
            into = bytearray(len(value))
            pages.put(["one"], [value])
            both_grow(received, lambda: pages.get(["one"], [into]))
            assert into == value
            pages.drop(["one"])
            both_grow(sent, lambda: client.put("/nics/file", value))
            into = bytearray(len(value))
            both_grow(received, lambda: client.read("/nics/file", 0, into))
            assert into == value
            client.unlink("/nics/file")
            keys = [f"k{index}" for index in range(512)]
            values = [value[i << 17 : (i + 1) << 17] for i in range(512)]
            both_grow(sent, lambda: pages.put(keys, values))
            room = [bytearray(1 << 17) for _ in keys]
            both_grow(received, lambda: pages.get(keys, room))
            assert room == values
        print("done")
        """
    )

    assert out == "done\n"


@pytest.mark.usefixtures("node")
def test_a_nic_that_goes_down_in_mid_transfer_costs_no_call_and_is_used_again(cables):
    out = cables.script(
        """
        import threading
        with connect() as client:
            pages = client.pages("nics")
            into = bytearray(len(value))
            keys = [f"k{index}" for index in range(256)]
            values = [value[i << 17 : (i + 1) << 17] for i in range(256)]
            room = [bytearray(1 << 17) for _ in keys]
            pages.put(["one"], [value[: 24 * MIB]])

            def all_calls():
                into[:] = bytes(len(into))
                pages.get(["one"], [memoryview(into)[: 24 * MIB]])
                assert into[: 24 * MIB] == value[: 24 * MIB]
                pages.put(keys, values)
                pages.get(keys, room)
                assert room == values
                pages.drop(keys)

            for cable in ("c1", "c2"):
                all_calls()
                started = sum(received(c) for c in ("c1", "c2"))
                failed = []
                def pull():
                    end = time.monotonic() + 10
                    while sum(received(c) for c in ("c1", "c2")) < started + 4 * MIB:
                        assert time.monotonic() < end
                    ip("link", "set", cable, "down")
                puller = threading.Thread(target=pull)
                puller.start()
                all_calls()
                puller.join()
                all_calls()
                ip("link", "set", cable, "up")
                end = time.monotonic() + 10
                before = received(cable)
                while received(cable) < before + 8 * MIB:
                    assert time.monotonic() < end, f"{cable} is not used again"
                    all_calls()
        print("done")
        """
    )

    assert out == "done\n"


@pytest.mark.usefixtures("node")
def test_a_slow_nic_takes_less_by_itself(cables):
    qdisc = ["dev", "c2", "root", "tbf", "rate", "80mbit", "burst", "256kb", "latency", "50ms"]
    slowed = subprocess.run(
        ["ip", "netns", "exec", cables.client, "tc", "qdisc", "add", *qdisc],
        capture_output=True,
        text=True,
    )
    if slowed.returncode != 0:
        pytest.skip(f"no rate limit can be set here: {slowed.stderr.strip()}")
    out = cables.script(
        """
        with connect() as client:
            before = [sent(cable) for cable in ("c1", "c2")]
            client.put("/nics/file", value)
            fast, slow = [sent(c) - b for c, b in zip(("c1", "c2"), before)]
            into = bytearray(len(value))
            client.read("/nics/file", 0, into)
            assert into == value
        print(fast > 2 * slow > 0, fast, slow)
        """
    )

    assert out.startswith("True"), out


@pytest.mark.usefixtures("node")
def test_a_nic_that_is_not_there_at_the_start_is_a_warning_and_used_once_it_is(cables):
    run("ip", "-n", cables.client, "link", "set", "c2", "down")
    out = cables.script(
        """
        with connect() as client:
            client.put("/nics/file", value)
            into = bytearray(len(value))
            ip("link", "set", "c2", "up")
            end = time.monotonic() + 10
            while received("c2") < 8 * MIB:
                assert time.monotonic() < end
                client.read("/nics/file", 0, into)
                assert into == value
        print("done")
        """
    )

    assert out == "done\n"
