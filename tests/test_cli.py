"""The command line against real nodes: what is printed, what is left behind, how it ends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from gd2fs import Client
from gd2fs.cli.app import app
from gd2fs.testing.cluster import Cluster, free_ports

MIB = 1 << 20
STATUS_FIELDS = {"name", "boot", "epoch", "state", "rung", "arena_bytes", "arena_free_bytes"}
BOUNDED_S = 20.0  # for a command that meets a dead node: its deadline, and the start of Python

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(2, "256MiB", str(tmp_path_factory.mktemp("nodes")), name="cli") as running:
        yield running


@pytest.fixture(autouse=True)
def clean(cluster):
    yield
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.clear("t")


@pytest.fixture
def run(cluster, tmp_path):
    """Run `gd2fs` with the cluster in its environment; nothing may end in a traceback."""

    def run_words(
        *words: object, cp: str = cluster.cp, name: str = cluster.name, stdin: bytes = b""
    ):
        command = [sys.executable, "-m", "gd2fs", *map(str, words)]
        environment = os.environ | {"GD2FS_CPADDR": cp, "GD2FS_CLUSTER": name}
        done = subprocess.run(
            command, input=stdin, capture_output=True, cwd=tmp_path, env=environment, timeout=60
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done

    return run_words


@pytest.fixture
def local(tmp_path):
    def make(size: int, name: str = "local"):
        (tmp_path / name).write_bytes(os.urandom(size))
        return tmp_path / name

    return make


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


def test_an_interrupted_put_leaves_no_half_file(cluster, run):
    command = [sys.executable, "-m", "gd2fs", "put", "--cp", cluster.cp, "--cluster", cluster.name]
    sender = subprocess.Popen(
        [*command, "-", "/t/half"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    sender.stdin.write(bytes(65 * MIB))  # one window goes out, the next one stays open
    sender.stdin.flush()
    with Client(cluster.cp, cluster=cluster.name) as client:
        wait_for(lambda: (facts := client.stat("/t/half")) and facts.size > 0)
        sender.send_signal(signal.SIGINT)
        said = sender.communicate(timeout=BOUNDED_S)[1]

        assert sender.returncode == 130, said
        assert client.stat("/t/half") is None


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


# ---- the other commands --------------------------------------------------------------------------


def test_ls_lists_paths_and_sizes(run, local):
    for name, size in (("b", 2), ("a", 1)):
        run("put", local(size), f"/t/{name}")

    assert json.loads(run("ls", "--json", "/t/").stdout) == {
        "files": [{"path": "/t/a", "bytes": 1}, {"path": "/t/b", "bytes": 2}]
    }
    assert run("ls", "/t/").stdout.decode().split() == ["1", "B", "/t/a", "2", "B", "/t/b"]


def test_stat_says_size_and_generation(run, local):
    run("put", local(7), "/t/file")

    facts = json.loads(run("stat", "--json", "/t/file").stdout)

    assert (facts["path"], facts["size"]) == ("/t/file", 7)
    assert b"generation" in run("stat", "/t/file").stdout


def test_rm_removes_one_file(run, local):
    run("put", local(1), "/t/file")

    assert run("rm", "/t/file").returncode == 0
    assert run("stat", "/t/file").returncode == 1
    assert run("rm", "/t/file").returncode == 1


def test_rm_r_removes_what_is_below_and_nothing_beside(run, local):
    for path in ("/t/dir/a", "/t/dir/b/c", "/t/dir2/a"):
        run("put", local(1), path)

    assert run("rm", "-r", "/t/dir").returncode == 0

    assert [file["path"] for file in json.loads(run("ls", "--json", "/t/").stdout)["files"]] == [
        "/t/dir2/a"
    ]


def test_rm_r_of_a_namespace_takes_its_pages_too(run, cluster, local):
    run("put", local(1), "/t/file")
    with Client(cluster.cp, cluster=cluster.name) as client:
        client.pages("t").put([b"key"], [b"value"])

        assert run("rm", "-r", "/t").returncode == 0

        assert client.pages("t").exists([b"key"]).present == [False]
        assert client.stat("/t/file") is None


def test_status_has_exactly_the_promised_fields(run, cluster):
    nodes = json.loads(run("status", "--json").stdout)["nodes"]

    assert [set(node) for node in nodes] == [STATUS_FIELDS] * 2
    assert sorted(node["name"] for node in nodes) == ["n0", "n1"]
    assert {node["state"] for node in nodes} == {"active"}
    assert all(0 < node["arena_free_bytes"] <= node["arena_bytes"] for node in nodes)


def test_status_for_people_names_every_node(run):
    shown = run("status").stdout.decode()

    assert "n0" in shown and "n1" in shown and "active" in shown


def test_version_is_one_line(run):
    assert run("version").stdout.decode().startswith("gd2fs 0.")


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["put"], ["put", "a"], ["unknown"], ["ls", "--nope"]])
def test_wrong_usage_is_status_2(run, words):
    assert run(*words).returncode == 2


@pytest.mark.parametrize(
    "path", ["/t/../x", "/t/./x", "/t//x", "t/x", "/t", "", "/t/" + "x" * 1100, "gd2fs://", "/t/.."]
)
def test_a_path_that_breaks_the_rules_is_refused(run, local, path):
    done = run("put", local(1), path)

    assert done.returncode == 1
    assert message_of(done).startswith("error: ")


def test_the_wrong_cluster_is_named(run):
    done = run("status", name="another")

    assert done.returncode == 1
    assert "another" in message_of(done) and message_of(done).count("\n") <= 2


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_nobody_there_is_an_error_in_bounded_time(run, host):
    start = time.monotonic()

    done = run("status", cp=f"gd2fs://{host}:{free_ports(1)[0]}")

    assert done.returncode == 1
    assert message_of(done).startswith("error: ") and host in message_of(done)
    assert time.monotonic() - start < BOUNDED_S


@pytest.mark.parametrize("setting", [{"cp": ""}, {"name": ""}])
def test_a_setting_that_is_missing_is_named(run, setting):
    done = run("status", **setting)

    assert done.returncode == 1
    assert "hint: " in message_of(done)


def test_a_file_larger_than_all_arenas_ends_clearly(run, local):
    done = run("put", local(600 * MIB, "huge"), "/t/huge")

    # It is a cache: the end of the file may have pushed its beginning out.
    assert done.returncode == 0
    assert run("get", "/t/huge", "back").returncode == 3


# ---- the reference -------------------------------------------------------------------------------


def test_the_reference_names_every_command_and_option():
    text = (Path(__file__).resolve().parent.parent / "docs/reference/cli.md").read_text("utf-8")
    commands = typer.main.get_command(app).commands
    words = {word for command in commands.values() for p in command.params for word in p.opts}

    assert [name for name in commands if not re.search(rf"^## .*\b{name}\b", text, re.M)] == []
    assert [word for word in words if word.startswith("--") and word not in text] == []
