"""put and get against real nodes: whole or nothing, and how they end."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gd2fs import Client
from gd2fs.cli import main
from gd2fs.cli.target import Target
from gd2fs.testing.cluster import Cluster

MIB = 1 << 20
BOUNDED_S = 20.0  # for a command that meets a dead node: its deadline, and the start of Python

pytestmark = pytest.mark.slow


def sha256(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def message_of(done) -> str:
    return done.stderr.decode()


# ---- put and get ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_537, 70 * MIB])
def test_a_file_comes_back_with_the_same_sum(run, local, tmp_path, size):
    source = local(size)

    assert run("put", source, "/t/file").returncode == 0
    assert run("get", "/t/file", "back").returncode == 0

    assert sha256(tmp_path / "back") == sha256(source)


def test_standard_input_and_output_are_files_too(run):
    sent = os.urandom(3 * MIB)

    assert run("put", "-", "/t/pipe", stdin=sent).returncode == 0

    assert run("get", "/t/pipe", "-").stdout == sent


def test_put_replaces_the_whole_content(run, local):
    run("put", local(5 * MIB, "long"), "/t/file")

    run("put", local(10, "short"), "/t/file")

    assert json.loads(run("stat", "--json", "/t/file").stdout)["size"] == 10


def test_get_into_a_folder_keeps_the_name(run, local, tmp_path):
    source = local(100)
    run("put", source, "/t/deep/name.kv")

    run("get", "/t/deep/name.kv", tmp_path)

    assert sha256(tmp_path / "name.kv") == sha256(source)


def test_a_uri_names_cluster_and_path_at_once(run, cluster, local):
    uri = f"{cluster.cp}/t/by-uri?cluster={cluster.name}"

    assert run("put", local(100), uri, cp="", name="").returncode == 0

    assert json.loads(run("stat", "--json", "/t/by-uri").stdout)["size"] == 100


def test_options_win_over_the_environment(run, cluster, local):
    words = ["--cp", cluster.cp, "--cluster", cluster.name]

    done = run("put", *words, local(1), "/t/one", cp="gd2fs://127.0.0.1:1", name="other")

    assert done.returncode == 0, message_of(done)


def test_no_such_file_is_an_error_that_leaves_nothing(run, tmp_path):
    done = run("get", "/t/none", "back")

    assert done.returncode == 1
    assert message_of(done).startswith("error: no such file: /t/none\nhint: ")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_local_file_is_an_error(run):
    done = run("put", "absent.kv", "/t/file")

    assert (done.returncode, message_of(done)) == (
        1,
        "error: no such file or directory: absent.kv\n",
    )


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_put_that_is_ended_leaves_nothing(cluster, tmp_path, number, status, words):
    command = [sys.executable, "-m", "gd2fs", "put", "--cp", cluster.cp, "--cluster", cluster.name]
    sender = subprocess.Popen(
        [*command, "-", "/t/half"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    sender.stdin.write(bytes(65 * MIB))  # the pipe is short: by now it is being copied
    sender.stdin.flush()
    sender.send_signal(number)
    said = sender.communicate(timeout=BOUNDED_S)[1]

    assert (sender.returncode, said.decode()) == (status, f"error: {words}\n")
    assert list(tmp_path.iterdir()) == []
    with Client(cluster.cp, cluster=cluster.name) as client:
        assert client.stat("/t/half") is None


def test_a_get_that_is_terminated_leaves_no_part(cluster, tmp_path):
    stopped = cluster.members[0].process
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.put("/t/large", bytes(100 * MIB), timeout_s=BOUNDED_S)
    (tmp_path / "into").mkdir()
    command = [sys.executable, "-m", "gd2fs", "get", "--cp", cluster.cp, "--cluster", cluster.name]
    getter = subprocess.Popen([*command, "/t/large", "back"], cwd=tmp_path / "into")
    try:
        wait_for(lambda: list((tmp_path / "into").iterdir()) or getter.poll() is not None)
        stopped.send_signal(signal.SIGSTOP)  # so that it cannot end before it is told to
        getter.send_signal(signal.SIGTERM)
        status = getter.wait(BOUNDED_S)
    finally:
        stopped.send_signal(signal.SIGCONT)

    assert (status, list((tmp_path / "into").iterdir())) in [
        (143, []),
        (0, [tmp_path / "into" / "back"]),  # it was quicker
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_start_of_python_is_one_line(cluster, number):
    """Told to end while the command's modules are imported, which is most of its start."""
    program = (
        "import os, sys\n"
        "class Tell:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'rich.progress': os.kill(os.getpid(), {number})\n"
        "sys.meta_path.insert(0, Tell())\n"
        "sys.argv = ['gd2fs', 'version']\n"
        "from gd2fs.cli import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=BOUNDED_S)

    word = "interrupted" if number == signal.SIGINT else "terminated"
    assert (done.returncode, done.stderr.decode()) == (128 + number, f"error: {word}\n")


@pytest.mark.parametrize("size", [0, 100, 3 * MIB])
def test_a_pipe_that_is_named_is_a_source(run, tmp_path, size):
    sent = os.urandom(size)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(sent,))
    writer.start()

    assert run("put", "pipe", "/t/file").returncode == 0
    writer.join()
    assert run("get", "/t/file", "-").stdout == sent


def test_a_file_that_does_not_tell_its_size_is_put_whole(run):
    assert run("put", "/proc/version", "/t/file").returncode == 0

    assert run("get", "/t/file", "-").stdout == Path("/proc/version").read_bytes()


@pytest.mark.parametrize(
    "words", ["get /t/file - >&-", "put - /t/file <&-", "get /t/file back 2>&-", "ls /t/ >&-"]
)
def test_a_closed_standard_stream_ends_in_no_traceback(cluster, local, run, words, tmp_path):
    run("put", local(10), "/t/file")
    environment = os.environ | {"GD2FS_CPADDR": cluster.cp, "GD2FS_CLUSTER": cluster.name}
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m gd2fs {words}"],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        timeout=BOUNDED_S,
    )

    is_needed = " - " in words
    said = message_of(done)
    assert done.returncode == is_needed
    assert "Traceback" not in said
    assert said.startswith("error: standard ") == is_needed


def test_a_hole_takes_no_room_in_the_local_file(cluster, run, tmp_path):
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.create("/t/sparse", chunk_bytes=64 << 10)
        client.write("/t/sparse", 40 * MIB, b"middle")
        client.write("/t/sparse", 80 * MIB - 1, b"\0")
        expected = hashlib.sha256(client.get("/t/sparse")).hexdigest()
    run("get", "/t/sparse", "back")

    assert sha256(tmp_path / "back") == expected
    assert (tmp_path / "back").stat().st_blocks * 512 < 8 * MIB


def test_a_long_local_name_is_no_matter(run, local, tmp_path):
    run("put", local(10), "/t/file")

    assert run("get", "/t/file", "x" * 255).returncode == 0
    assert (tmp_path / ("x" * 255)).stat().st_size == 10


@pytest.mark.parametrize("name", ["x" * 256, "none/back"])
def test_a_local_file_that_cannot_be_made_is_named(run, local, name):
    run("put", local(10), "/t/file")
    done = run("get", "/t/file", name)

    assert done.returncode == 1
    assert message_of(done).endswith(f": {name}\n")


class Changing:
    """A client under which a file changes while it is read, ``changes`` times."""

    def __init__(self, client: Client, changes: int) -> None:
        self._client = client
        self._changes = changes

    def stat(self, path):
        return self._client.stat(path)

    def read(self, path, offset, into, timeout_s):
        count = self._client.read(path, offset, into)
        if self._changes:
            self._changes -= 1
            self._client.write(path, 0, b"changed")
        return count

    def __enter__(self) -> Changing:
        return self

    def __exit__(self, *_) -> None:
        pass


@pytest.mark.parametrize(("changes", "is_got"), [(0, True), (1, True), (2, False)])
def test_a_file_that_changes_is_read_once_more(cluster, monkeypatch, tmp_path, changes, is_got):
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.put("/t/file", b"content")
        monkeypatch.setattr(Target, "open", lambda _: Changing(client, changes))
        status = main(["get", "/t/file", str(tmp_path / "back")])

    assert status == (0 if is_got else 1)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == (
        [b"changed" if changes else b"content"] if is_got else []
    )


def wait_for(is_true) -> None:
    end = time.monotonic() + BOUNDED_S
    while not is_true():
        assert time.monotonic() < end, "it never came true"


# ---- misses --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evicted(tmp_path_factory):
    """A small node that had to let the first file's bytes go."""
    folder = str(tmp_path_factory.mktemp("small"))
    with Cluster(1, "64MiB", folder, name="cli") as small:
        with Client(small.cp, cluster=small.name) as client:
            client.put("/t/first", bytes(8 * MIB))
            for index in range(10):
                client.put(f"/t/later{index}", bytes(12 * MIB))
        yield small


def test_evicted_bytes_are_a_miss(run, evicted):
    done = run("get", "/t/first", "back", cp=evicted.cp)

    assert done.returncode == 3
    assert message_of(done).startswith("miss: /t/first: ")


def test_a_miss_leaves_the_local_file_as_it_was(run, evicted, tmp_path):
    (tmp_path / "back").write_bytes(b"before")

    run("get", "/t/first", "back", cp=evicted.cp)

    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("back", b"before")]
