"""Forks and ends of programs: in a child, clients of the parent are closed; in the parent they go
on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

import pygd2fs
from gd2fs import Closed, _core
from gd2fs.fork import AbandonedClient

PATIENCE_S = 20.0

# Ends as a program does, not by os._exit, and has an await behind it, which leaves more to let go.
PROGRAM = """
import asyncio, os, sys
from gd2fs import Client
client = Client(sys.argv[1], cluster=sys.argv[2])
asyncio.run(client.astat("/ns/file"))
child = os.fork()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(status or client.stat("/ns/file") is not None)
client.close()
del client
"""

# Its daemon threads are in calls, and in nothing else, when it ends.
BUSY_PROGRAM = """
import sys, threading
from gd2fs import Client
client = Client(sys.argv[1], cluster=sys.argv[2])
are_calling = threading.Barrier(5)
def call():
    are_calling.wait()
    while True:
        client.stat("/ns/file")
for _ in range(4):
    threading.Thread(target=call, daemon=True).start()
are_calling.wait()
for _ in range(50):
    client.stat("/ns/file")
"""


def in_child(use: Callable[[], bool]) -> bool:
    """Whether ``use`` returned True in a forked child."""
    child = os.fork()
    if child == 0:
        is_true = False
        try:
            is_true = use()
        finally:
            os._exit(0 if is_true else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def is_closed(use: Callable[[], object]) -> bool:
    try:
        use()
    except Closed as error:
        return "before fork" in str(error)
    return False


def test_every_call_of_a_child_says_closed(client, path, namespace):
    pages = client.pages(namespace)
    uses = (
        lambda: client.stat(path),
        lambda: client.create(path),
        lambda: client.ping(),
        lambda: client.clear(namespace),
        lambda: pages.exists([b"key"]),
        lambda: asyncio.run(client.astat(path)),
        client.fileno,
    )

    assert in_child(lambda: all(is_closed(use) for use in uses))
    assert client.stat(path) is None


def test_a_child_may_make_a_client_of_its_own(client, three_nodes, path):
    client.create(path)

    def use() -> bool:
        with three_nodes.client() as own:
            return own.stat(path) is not None

    assert in_child(use)


@pytest.mark.slow
def test_a_child_ends_with_the_parents_client_still_there(three_nodes):
    words = [sys.executable, "-c", PROGRAM, three_nodes.cp, three_nodes.cluster]

    assert subprocess.run(words, timeout=PATIENCE_S).returncode == 0


def test_a_program_ends_while_its_daemon_threads_are_in_calls(three_nodes):
    words = [sys.executable, "-c", BUSY_PROGRAM, three_nodes.cp, three_nodes.cluster]

    for _ in range(5):
        assert subprocess.run(words, timeout=PATIENCE_S).returncode == 0


def test_the_published_client_starts_nothing_in_a_child(three_nodes, path):
    xfer = pygd2fs.Client(three_nodes.cp, "tcp://127.0.0.1", three_nodes.cluster)
    xfer.Create(path, 0, 0, "")

    def use() -> bool:
        awaited = asyncio.run(xfer.ReadAsync(path, 0, []))
        return (xfer.Create(path, 0, 0, ""), xfer.Wait(-1), awaited.Status() != 0) == (
            None,
            [],
            True,
        )

    assert in_child(use)
    assert len(xfer.Wait(int(PATIENCE_S * 1e3))) == 1


def test_no_call_of_the_native_client_is_forgotten():
    calls = {name for name in vars(_core.Client) if not name.startswith("_")}

    assert calls - set(vars(AbandonedClient)) == set()
