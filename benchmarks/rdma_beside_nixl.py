"""Reads of a GD2FS node by one-sided transfers beside NIXL's READ, in turn, on one host.

Each has two processes: one holds the bytes, the other reads them into registered memory. NIXL is a
benchmark's matter and needs an environment of its own:

    python -m venv /tmp/nixl && /tmp/nixl/bin/pip install --no-deps nixl-cu12 nixl numpy
    python benchmarks/rdma_beside_nixl.py --nixl-python /tmp/nixl/bin/python --ucx-tls cma,posix

Prints the median of each, in GB/s, and how they compare. Bytes are verified on the way unless
``--no-verify`` says otherwise: NIXL verifies none.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20
CASES = {"64 MiB": (64 * MIB, 1), "512 x 128 KiB": (128 * 1024, 512)}
CLUSTER = "beside-nixl"


# ---- NIXL, run by the other Python ---------------------------------------------------------------

NIXL = """
import json, sys, time
import numpy
from nixl_cu12._api import nixl_agent, nixl_agent_config

MIB64 = 64 << 20
role, bytes_each, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
memory = numpy.zeros(MIB64, numpy.uint8)
if role == "holder":
    memory[:] = numpy.random.default_rng(1).integers(0, 256, MIB64, numpy.uint8)
base = memory.ctypes.data
agent.register_memory([(base, MIB64, 0, "")], "DRAM")
say = lambda **what: print(json.dumps(what), flush=True)
if role == "holder":
    total = int(memory.sum(dtype=numpy.uint64))
    say(base=base, metadata=agent.get_agent_metadata().hex(), sum=total)
    sys.stdin.readline()
    sys.exit()
told = json.loads(sys.stdin.readline())
peer = agent.add_remote_agent(bytes.fromhex(told["metadata"]))
rows = lambda at: [(at + i * bytes_each, bytes_each, 0) for i in range(count)]
here = agent.get_xfer_descs(rows(base), "DRAM")
there = agent.get_xfer_descs(rows(told["base"]), "DRAM")
handle = agent.initialize_xfer("READ", here, there, peer)
say(ready=True)
for line in sys.stdin:
    began = time.perf_counter()
    state = agent.transfer(handle)
    while state != "DONE":
        assert state != "ERR"
        state = agent.check_xfer_state(handle)
    say(seconds=time.perf_counter() - began)
assert int(memory.sum(dtype=numpy.uint64)) == told["sum"], "other bytes came"
"""


class Talker:
    """A process that answers a line of JSON for each line."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def hear(self) -> dict[str, object]:
        assert self._process.stdout
        for line in self._process.stdout:  # UCX and NIXL talk between
            if line.startswith("{"):
                return dict(json.loads(line))
        raise SystemExit("a process of the benchmark has ended")

    def say(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)


class Nixl:
    """NIXL's READ of ``count`` ranges at once. Its threads spin, also when nobody asks anything of
    them: while it is not its turn they stand still, or they would take the other's processors."""

    def __init__(self, python: str, environment: dict[str, str], bytes_each: int, count: int):
        script = [python, "-c", NIXL]
        numbers = [str(bytes_each), str(count)]
        self._holder = Talker([*script, "holder", *numbers], environment)
        self._reader = Talker([*script, "reader", *numbers], environment)
        self._reader.say(json.dumps(self._holder.hear()))
        self._reader.hear()
        self._signal(signal.SIGSTOP)

    def seconds(self) -> float:
        self._signal(signal.SIGCONT)
        self._reader.say("again")
        took = float(str(self._reader.hear()["seconds"]))
        self._signal(signal.SIGSTOP)
        return took

    def end(self) -> None:
        self._signal(signal.SIGCONT)
        for each in (self._reader, self._holder):
            each.end()

    def _signal(self, number: int) -> None:
        for each in (self._reader, self._holder):
            each.signal(number)


# ---- GD2FS ---------------------------------------------------------------------------------------


def hold(ucx: dict[str, str]) -> None:
    """A node, until its standard input ends."""
    from gd2fs import _core

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    _server = _core.Server(
        CLUSTER, "a", [address], [("a", [address], 1)], bytes(16), 1, 2,
        512 * MIB, "auto", rdma={"use": "on", **ucx},
    )  # fmt: skip
    print(json.dumps({"address": address}), flush=True)
    sys.stdin.read()


def ended(call: Any) -> None:
    call.wait()
    if call.status != 0 or any(call.statuses):
        raise SystemExit(f"a call came to {call.status}: {call.message}")


class Store:
    """Reads of the same bytes as one file, or as so many pages at once."""

    def __init__(self, ucx: dict[str, str], bytes_each: int, count: int, verify: bool) -> None:
        from gd2fs import _core

        command = [sys.executable, __file__, "--hold", json.dumps(ucx)]
        self._node = Talker(command, dict(os.environ))
        address = str(self._node.hear()["address"])
        self._client = _core.Client(
            [address], CLUSTER, transport="rdma", is_verifying=verify, rdma=ucx
        )
        self._into = mmap.mmap(-1, bytes_each * count)
        self._into.madvise(mmap.MADV_HUGEPAGE)  # as numpy does for NIXL's
        view = memoryview(self._into)
        self._parts = [view[i * bytes_each : (i + 1) * bytes_each] for i in range(count)]
        self._keys = [f"key-{i}".encode() for i in range(count)]
        self._value = os.urandom(bytes_each * count)
        whole = memoryview(self._value)
        pieces = [whole[i * bytes_each : (i + 1) * bytes_each] for i in range(count)]
        if count == 1:
            ended(self._client.put(b"/ns/file", [self._value]))
        else:
            ended(self._client.put_pages(b"ns", self._keys, pieces))
        at = ctypes.addressof(ctypes.c_char.from_buffer(self._into))
        self._client.register_memory(at, len(self._into))

    def seconds(self) -> float:
        began = time.perf_counter()
        if len(self._parts) == 1:
            ended(self._client.read(b"/ns/file", 0, [self._into]))
        else:
            ended(self._client.get_pages(b"ns", self._keys, self._parts))
        return time.perf_counter() - began

    def end(self) -> None:
        assert self._into[:] == self._value, "other bytes came"
        self._client.close()
        self._node.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nixl-python", help="a Python that has NIXL")
    parser.add_argument("--library", default=os.environ.get("GD2FS_UCX", ""), help="a libucp")
    parser.add_argument("--ucx-tls", default="posix,sysv,cma")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--hold", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.hold:
        return hold(json.loads(chosen.hold))
    ucx = {"library": chosen.library, "transports": chosen.ucx_tls}
    # NIXL asks UCX to handle faults of peers, which shared memory does only when it is told to.
    environment = {**os.environ, "UCX_TLS": chosen.ucx_tls, "UCX_MM_ERROR_HANDLING": "y"}
    print(f"{os.cpu_count()} cores, UCX_TLS={chosen.ucx_tls}, {Path('/proc/loadavg').read_text()}")
    for name, (bytes_each, count) in CASES.items():
        contenders = {
            "NIXL": Nixl(chosen.nixl_python, environment, bytes_each, count),
            "GD2FS": Store(ucx, bytes_each, count, not chosen.no_verify),
        }
        times: dict[str, list[float]] = {each: [] for each in contenders}
        for _ in range(chosen.rounds):
            for each, contender in contenders.items():
                times[each].append(contender.seconds())
        rates = {
            each: bytes_each * count / statistics.median(took[1:]) / 1e9
            for each, took in times.items()
        }
        for contender in contenders.values():
            contender.end()
        said = ", ".join(f"{each} {rate:.2f} GB/s" for each, rate in rates.items())
        print(f"{name}: {said}, {rates['GD2FS'] / rates['NIXL']:.2f}", flush=True)


if __name__ == "__main__":
    main()
