"""Views: pages and files read where they lie, what releases them, and what a child may do."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import time

import pytest

from gd2fs import Closed

PATIENCE_S = 20.0
PAGE = os.urandom(300_000)


def eventually(is_true) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            return False
        os.sched_yield()
    return True


@pytest.fixture(params=["shm_client", "unix_client", "tcp_client"])
def any_client(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def views(shared_node):
    """How many views the node that shares its memory counts now."""
    return lambda: shared_node.servers[0].counts()["views"]


def test_a_view_has_the_bytes_of_its_page_on_every_transport(any_client, namespace):
    any_client.pages(namespace).put([b"key"], [PAGE])

    with any_client.view(namespace, b"key") as view:
        assert bytes(view.memory) == PAGE
        assert b"".join(view.parts) == PAGE
        assert len(view) == view.size == len(PAGE)


def test_a_view_of_a_file_is_a_range_of_it_and_short_at_its_end(any_client, path):
    any_client.put(path, PAGE)

    with any_client.view_file(path, 100_001, 1 << 20) as view:
        assert bytes(view.memory) == PAGE[100_001:]
    with any_client.view_file(path) as view:
        assert bytes(view.memory) == PAGE


def test_what_is_not_there_is_no_view(any_client, namespace, path):
    assert any_client.view(namespace, b"nothing") is None
    assert any_client.view_file(path) is None


def test_only_shared_memory_spares_the_copy(shm_client, tcp_client, namespace):
    for client, is_copy in ((shm_client, False), (tcp_client, True)):
        client.pages(namespace).put([b"key"], [PAGE])
        with client.view(namespace, b"key", verify=True) as view:
            assert view.is_copy is is_copy


def test_a_view_can_be_awaited(shm_client, namespace, path):
    async def look() -> bytes:
        await shm_client.pages(namespace).aput([b"key"], [PAGE])
        await shm_client.aput(path, PAGE)
        page = await shm_client.aview(namespace, b"key")
        file = await shm_client.aview_file(path)
        with page, file:
            return bytes(page.memory) + bytes(file.memory)

    assert asyncio.run(look()) == PAGE + PAGE


def test_its_memory_cannot_be_written_to(shm_client, namespace):
    shm_client.pages(namespace).put([b"key"], [PAGE])

    with shm_client.view(namespace, b"key") as view:
        assert view.memory.readonly
        with pytest.raises(TypeError):
            view.memory[0] = 0


def test_it_is_not_released_while_a_buffer_of_it_is_in_use(shm_client, namespace, views):
    shm_client.pages(namespace).put([b"key"], [PAGE])
    view = shm_client.view(namespace, b"key")
    part = memoryview(view.memory)[100:200]

    with pytest.raises(BufferError, match=r"in use \(1\); delete them"):
        view.release()
    assert bytes(part) == PAGE[100:200]
    del part
    view.release()
    view.release()

    with pytest.raises(Closed):
        view.memory.tobytes()
    assert eventually(lambda: views() == 0)


def test_a_view_that_is_forgotten_is_released(shm_client, namespace, views):
    shm_client.pages(namespace).put([b"key"], [PAGE])
    memory = shm_client.view(namespace, b"key").memory
    gc.collect()
    assert views() == 1
    assert bytes(memory) == PAGE

    del memory
    gc.collect()

    assert eventually(lambda: views() == 0)


def test_its_own_buffers_end_with_it(shm_client, namespace, views):
    shm_client.pages(namespace).put([b"key"], [PAGE])
    with shm_client.view(namespace, b"key") as view:
        memory, parts = view.memory, view.parts
        assert memory == PAGE

    for ended in (memory, *parts):
        with pytest.raises(ValueError, match="released"):
            ended[0]
    with pytest.raises(Closed):
        view.parts  # noqa: B018


def test_in_a_child_it_is_closed_and_reading_on_ends_the_child(shm_client, namespace):
    shm_client.pages(namespace).put([b"key"], [PAGE])
    with shm_client.view(namespace, b"key") as view:
        memory = view.memory
        asking, reading = os.fork(), 1
        if asking == 0:
            try:
                len(view.parts)
            except Closed:
                os._exit(7)
            os._exit(1)
        reading = os.fork()
        if reading == 0:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os._exit(memory[0] == PAGE[0])

        assert os.waitstatus_to_exitcode(os.waitpid(asking, 0)[1]) == 7
        assert os.waitstatus_to_exitcode(os.waitpid(reading, 0)[1]) == -signal.SIGSEGV
        assert bytes(memory) == PAGE
        del memory


def cut_unix_streams() -> None:
    """Ends every connection of this process to a node's Unix socket, as a node does that cuts off
    a reader."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as end:
            name = end.getpeername() if end.family == socket.AF_UNIX else ""
            if isinstance(name, bytes) and name.startswith(b"\0gd2fs/"):  # abstract
                end.shutdown(socket.SHUT_RDWR)


def test_a_view_goes_back_when_its_stream_is_gone_and_nothing_else_is_asked(
    shm_client, namespace, views
):
    shm_client.pages(namespace).put([b"key"], [PAGE])
    held = [shm_client.view(namespace, b"key") for _ in range(3)]
    assert views() == 3

    cut_unix_streams()
    for view in held:
        view.release()

    assert eventually(lambda: views() == 0)
