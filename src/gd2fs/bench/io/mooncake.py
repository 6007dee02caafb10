"""Mooncake: its store as a peer, by TCP. A master and a node of memory, both of them processes of
the run, and a client that moves bytes from and into registered memory, its fastest way.
"""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gd2fs.bench.children import die_with_parent
from gd2fs.bench.io.memory import address_of
from gd2fs.errors import Unavailable
from gd2fs.testing.cluster import free_ports

HOST = "127.0.0.1"
SEGMENT_BYTES = 1 << 30  # of the node
BUFFER_BYTES = 64 << 20  # that Mooncake takes for itself


class Mooncake:
    """A client of the master at ``address``. ``memory``: what its calls read from and write to."""

    def __init__(self, address: str, memory: Sequence[memoryview]) -> None:
        self._store = _connect(address, segment_bytes=0)
        for view in memory:
            _check(self._store.register_buffer(address_of(view), len(view)), "register memory")

    def put(self, keys: Sequence[str], values: Sequence[memoryview]) -> None:
        places, sizes = _places(values)
        for status in self._store.batch_put_from(list(keys), places, sizes):
            _check(status, "put")

    def get(self, keys: Sequence[str], into: Sequence[memoryview]) -> Sequence[Any]:
        places, sizes = _places(into)
        for size, wanted in zip(
            self._store.batch_get_into(list(keys), places, sizes), sizes, strict=True
        ):
            _check(0 if size == wanted else size, "get")
        return into

    def drop(self, keys: Sequence[str]) -> None:
        self._store.batch_remove(list(keys), force=True)


def main() -> None:
    """Serve until SIGTERM: the master, and this process as the node."""
    package = Path(importlib.import_module("mooncake").__file__ or "").parent
    port, metrics_port = free_ports(2)
    (package / "mooncake_master").chmod(0o755)
    master = subprocess.Popen(
        [package / "mooncake_master", f"--rpc_port={port}", f"--metrics_port={metrics_port}"],
        stdout=sys.stderr,
        preexec_fn=die_with_parent,
    )
    store = _connect(f"{HOST}:{port}", segment_bytes=SEGMENT_BYTES)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(f"ready master={HOST}:{port} pid={master.pid}", flush=True)
    signal.pause()
    store.close()


def _connect(address: str, *, segment_bytes: int) -> Any:
    store = importlib.import_module("mooncake.store").MooncakeDistributedStore()
    status = store.setup(HOST, "P2PHANDSHAKE", segment_bytes, BUFFER_BYTES, "tcp", "", address)
    _check(status, f"connect to the master at {address}")
    return store


def _places(views: Sequence[memoryview]) -> tuple[list[int], list[int]]:
    return [address_of(view) for view in views], [len(view) for view in views]


def _check(status: int, what: str) -> None:
    if status != 0:
        raise Unavailable(f"Mooncake: cannot {what}: status {status}", hint="look at its log")


if __name__ == "__main__":
    main()
