"""Sync says where things are kept, and what it has named is there after a kill."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from gd2fs import Client
from gd2fs.testing.cluster import Cluster


@pytest.mark.slow
def test_what_a_kept_arena_has_outlives_the_process(kept_node: Cluster):
    with Client(kept_node.cp, cluster=kept_node.name) as client:
        client.pages("ns").put(["a", "b"], [b"a" * 1000, b"b" * 100_000])
        client.put("/ns/file", b"f" * 5_000_000)

        assert client.pages("ns").sync(["a", "none", "b"]) == ["memory", "", "memory"]
        assert client.sync(["/ns/file", "/ns/none"]) == ["memory", ""]
        assert asyncio.run(client.async_(["/ns/file"])) == ["memory"]
        assert asyncio.run(client.pages("ns").async_(["a"])) == ["memory"]

    kept_node.members[0].kill()
    kept_node.members[0].start()
    with Client(kept_node.cp, cluster=kept_node.name) as client:
        assert client.get("/ns/file") == b"f" * 5_000_000
        assert client.pages("ns").exists(["a", "b"]).present == [True, True]
        assert client.pages("ns").sync(["a", "b"]) == ["memory", "memory"]


def test_a_node_that_keeps_nothing_says_so(one_node):
    with one_node.client() as client:
        client.pages("sync").put(["a"], [b"a"])
        client.put("/sync/file", b"f")

        assert client.pages("sync").sync(["a"]) == [""]
        assert client.sync(["/sync/file"]) == [""]


@pytest.mark.slow
def test_the_command_line_says_where_files_are(kept_node: Cluster):
    def sync(*paths: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gd2fs", "sync", "--cp", kept_node.cp]
        return subprocess.run(
            [*command, "--cluster", kept_node.name, *paths], text=True, capture_output=True
        )

    with Client(kept_node.cp, cluster=kept_node.name) as client:
        client.put("/ns/file", b"f")

    done = sync("/ns/file")
    assert (done.returncode, done.stdout) == (0, "memory /ns/file\n")
    failed = sync("/ns/file", "/ns/none")
    assert (failed.returncode, failed.stdout) == (1, "memory /ns/file\n")
    assert failed.stderr.startswith("error: not kept: /ns/none\nhint: ")
