"""Stored samples of what a node keeps: what this version writes, every later one has to read.

`python -m restart.samples` writes those of this version anew; a new layout gets files of its own
beside the old ones.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gd2fs import Client, _core
from gd2fs.testing.cluster import free_ports

FOLDER = Path(__file__).parent.parent / "data"
ARENA = "arena-layout-2.gz"
RECORDS = "records-format-1"
CLUSTER = "sample"
MEMORY_BYTES = 2 << 20

PAGES = {f"key-{at}": bytes([at]) * (1 + at * 500) for at in range(40)}
WHOLE = b"whole " * 20_000
PARTS = b"a" * 70_000 + b"b" * 30_000


@contextmanager
def serving(folder: Path) -> Iterator[Client]:
    """A node whose arena and records lie in ``folder``, under the list that samples have."""
    port = free_ports(1)[0]
    server = _core.Server(
        cluster=CLUSTER,
        name="n0",
        listen=[f"127.0.0.1:{port}"],
        peers=[("n0", [f"127.0.0.1:{port}"], 100)],
        list_hash=b"the sample list!",
        boot=1,
        threads=1,
        memory_bytes=MEMORY_BYTES,
        arena=f"file:{folder}/arena",
        state_dir=str(folder),
    )
    try:
        with Client(f"gd2fs://127.0.0.1:{port}", cluster=CLUSTER, transport="tcp") as client:
            yield client
    finally:
        server.stop()


def unpack(folder: Path, arena: str = ARENA, records: str = RECORDS) -> None:
    """Put samples where a node finds them."""
    (folder / "arena").write_bytes(gzip.decompress((FOLDER / arena).read_bytes()))
    (folder / "records").write_bytes((FOLDER / records).read_bytes())


def write() -> None:
    """Make the samples of this version."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        with serving(folder) as client:
            client.pages("ns").put(list(PAGES), list(PAGES.values()))
            client.put("/ns/whole", WHOLE, chunk_bytes=1 << 16)
            client.create("/ns/parts", chunk_bytes=1 << 16)
            client.write("/ns/parts", 70_000, PARTS[70_000:])
            client.write("/ns/parts", 0, PARTS[:70_000])
            client.put("/ns/gone", b"gone")
            client.unlink("/ns/gone")
        (FOLDER / ARENA).write_bytes(gzip.compress((folder / "arena").read_bytes(), mtime=0))
        (FOLDER / RECORDS).write_bytes((folder / "records").read_bytes())


if __name__ == "__main__":
    write()
