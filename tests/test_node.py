"""A node's start and end: the ready line, what is refused, the lists of peers, the admin side."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gd2fs import Client
from gd2fs.config import NodeConfig, parse_listen
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes
from gd2fs.testing.cluster import Cluster, free_ports

END_S = 10.0
HUGE_PAGES_FREE = int(re.search(r"HugePages_Free:\s+(\d+)", Path("/proc/meminfo").read_text())[1])


class Serve(contextlib.AbstractContextManager):
    """`gd2fs serve` as a child; its first line of output is waited for."""

    def __init__(self, *words: str, cluster: str = "node", memory: str = "64MiB") -> None:
        command = [sys.executable, "-m", "gd2fs", "serve", "--cluster", cluster, "--memory", memory]
        self.process = subprocess.Popen(
            [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.line = self.process.stdout.readline()

    @property
    def facts(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in shlex.split(self.line)[1:])

    @property
    def address(self) -> str:
        return self.facts["listen"].removeprefix("tcp://")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Signal it; its status and all that it said on standard error."""
        self.process.send_signal(number)
        said = self.process.communicate(timeout=END_S)[1]
        return self.process.returncode, said

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def refused(*words: str, memory: str = "64MiB") -> str:
    """Start a node that must not start; what it says."""
    with Serve(*words, memory=memory) as node:
        said = node.process.communicate(timeout=END_S)[1]
        assert (node.line, node.process.returncode) == ("", 1), said
        assert "Traceback" not in said
        return said


ANY = ("--listen", "tcp://127.0.0.1:0")


# ---- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GiB", 8 << 30), ("512M", 512 << 20), ("64MB", 64 << 20), ("1.5g", 3 << 29), ("4096", 4096),
     ("1 TiB", 1 << 40)],
)  # fmt: skip
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "8 giga", "-1M", "1e9", "M", "8GiBB", "8388608T", "9" * 400])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidRequest):
        parse_bytes(text)


def test_listen_addresses_are_read():
    assert parse_listen("tcp://10.0.0.1:1,10.0.0.2:2") == ("10.0.0.1:1", "10.0.0.2:2")
    with pytest.raises(InvalidRequest):
        parse_listen("unix:///run/gd2fs.sock")


@pytest.mark.parametrize(
    "wrong",
    [{"cluster": ""}, {"cluster": "x" * 129}, {"memory_bytes": 1}, {"threads": 0}, {"threads": 65},
     {"socket_buffer_bytes": 1}, {"arena": "gold"}, {"arena": "file:"},
     {"admin": "8080"}, {"name": "a b"}, {"listen": ("x",)}],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        NodeConfig(**({"cluster": "c"} | wrong))


# ---- start and end -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_node_with_status_0_at_once(number):
    with Serve(*ANY) as node:
        assert node.line.startswith("ready ")
        start = time.monotonic()

        status, said = node.end(number)

        assert status == 0, said
        assert time.monotonic() - start < 2.0


@pytest.mark.slow
def test_the_ready_line_says_what_was_got():
    with Serve(*ANY, "--name", "one", "--arena", "plain") as node:
        facts = node.facts

    assert facts["name"] == "one"
    assert facts["cluster"] == "node"
    assert facts["memory"] == str(64 << 20)
    assert facts["rung"] == "plain"
    assert not facts["listen"].endswith(":0")


@pytest.mark.slow
def test_a_node_serves_as_soon_as_it_says_ready():
    with Serve(*ANY) as node, Client(node.address, cluster="node") as client:
        client.put("/t/file", b"bytes")

        assert client.get("/t/file") == b"bytes"


@pytest.mark.slow
def test_a_node_without_a_token_warns_once():
    with Serve(*ANY) as node:
        said = node.end()[1]

    assert said.count("warning: ") == 1 and "token" in said


@pytest.mark.slow
def test_an_open_address_is_warned_of_by_name():
    port = free_ports(1)[0]
    where = ("--listen", f"tcp://0.0.0.0:{port}", "--advertise", f"127.0.0.1:{port}")
    with Serve(*where, "--insecure") as node:
        said = node.end()[1]

    assert f"0.0.0.0:{port} has no token" in said


@pytest.mark.slow
def test_a_node_serves_on_all_its_addresses():
    first, second = free_ports(2)
    with Serve("--listen", f"tcp://127.0.0.1:{first},tcp://127.0.0.1:{second}"):
        for port in (first, second):
            with Client(f"127.0.0.1:{port}", cluster="node") as client:
                assert len(client.ping()) == 1


@pytest.mark.slow
def test_an_address_that_the_machine_does_not_have_is_a_warning_when_another_works():
    here, there = free_ports(2)
    where = f"tcp://127.0.0.1:{here},tcp://198.51.100.1:{there}"
    with Serve("--listen", where, "--insecure") as node:
        with Client(f"127.0.0.1:{here}", cluster="node") as client:
            assert client.ping()[0].state == "active"
        said = node.end()[1]

    assert f"this machine has no 198.51.100.1:{there} now" in said


@pytest.mark.slow
def test_without_any_address_a_node_does_not_start():
    where = "tcp://198.51.100.1:7527,tcp://198.51.100.2:7527"
    said = refused("--listen", where, "--insecure")

    assert "cannot listen on 198.51.100.2:7527" in said


@pytest.mark.slow
def test_socket_settings_are_taken_or_refused_with_what_the_kernel_has():
    with Serve(*ANY, "--congestion", "reno", "--socket-buffer", "512KiB") as node:
        assert node.line.startswith("ready ")
    said = refused(*ANY, "--congestion", "no-such-control")

    assert "`no-such-control`" in said and "reno" in said


@pytest.mark.slow
def test_a_file_holds_the_arena(tmp_path):
    with Serve(*ANY, "--arena", f"file:{tmp_path}/arena") as node:
        assert node.facts["rung"] == "file"

        assert (tmp_path / "arena").stat().st_size >= 64 << 20


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("--listen", f"tcp://127.0.0.1:{port}")

    assert f"127.0.0.1:{port}" in said and "hint: " in said


@pytest.mark.slow
def test_an_address_of_another_machine_is_refused():
    assert "198.51.100.1" in refused("--listen", "tcp://198.51.100.1:0", "--insecure")


@pytest.mark.slow
def test_more_memory_than_there_is_is_refused():
    assert "hint: " in refused(*ANY, "--arena", "plain", memory="900TiB")


@pytest.mark.slow
@pytest.mark.skipif(HUGE_PAGES_FREE >= 512, reason="this machine has 1 GiB of free huge pages")
def test_huge_pages_that_are_not_there_are_refused_by_name():
    said = refused(*ANY, "--arena", "hugetlb", memory="1GiB")

    assert said.startswith(("error: ", "warning: ")) and "vm.nr_hugepages" in said


@pytest.mark.slow
def test_an_arena_file_that_cannot_be_made_is_refused():
    assert "/nowhere/arena" in refused(*ANY, "--arena", "file:/nowhere/arena")


@pytest.mark.slow
def test_a_wildcard_needs_an_address_that_others_can_reach():
    assert "--advertise" in refused("--listen", "tcp://0.0.0.0:0", "--insecure")


@pytest.mark.slow
def test_a_node_that_is_not_in_its_own_list_is_refused():
    assert "no entry" in refused(*ANY, "--peers", "a=127.0.0.1:1,b=127.0.0.1:2")


# ---- lists of peers ------------------------------------------------------------------------------


def listed(name: str, port: int, peers: str) -> tuple[str, ...]:
    return ("--listen", f"tcp://127.0.0.1:{port}", "--peers", peers, "--name", name)


@pytest.mark.slow
def test_unequal_lists_are_refused_naming_both_nodes():
    a, b, c = free_ports(3)
    both = f"a=127.0.0.1:{a},b=127.0.0.1:{b}"
    with Serve(*listed("a", a, both)):
        said = refused(*listed("b", b, f"{both},c=127.0.0.1:{c}"))

    assert f"b at 127.0.0.1:{b} and a at 127.0.0.1:{a} have different lists" in said
    assert f"c=127.0.0.1:{c}" in said


@pytest.mark.slow
def test_equal_lists_in_another_order_are_one_list():
    a, b = free_ports(2)
    with (
        Serve(*listed("a", a, f"a=127.0.0.1:{a},b=127.0.0.1:{b}")) as first,
        Serve(*listed("b", b, f"b=127.0.0.1:{b},a=127.0.0.1:{a}")) as second,
    ):
        assert first.line.startswith("ready ") and second.line.startswith("ready ")


@pytest.mark.slow
def test_a_peer_of_another_cluster_is_refused():
    a, b = free_ports(2)
    peers = f"a=127.0.0.1:{a},b=127.0.0.1:{b}"
    with Serve(*listed("a", a, peers), cluster="other"):
        said = refused(*listed("b", b, peers))

    assert "a=127.0.0.1" in said and "cluster" in said


@pytest.mark.slow
def test_a_killed_node_is_gone_and_its_keys_are_missed_in_bounded_time(tmp_path):
    with (
        Cluster(2, "64MiB", str(tmp_path), name="node") as cluster,
        Client(cluster.cp, cluster="node", timeout_s=2) as client,
    ):
        keys = [b"%d" % index for index in range(32)]
        client.pages("t").put(keys, [b"value"] * len(keys))
        cluster.members[1].kill()
        start = time.monotonic()

        found = client.pages("t").exists(keys).present
        states = {node.name: node.state for node in client.ping()}

        assert time.monotonic() - start < 10
        assert True in found and False in found
        assert states == {"n0": "active", "n1": "gone"}


# ---- the admin side ------------------------------------------------------------------------------


def fetch(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def watched():
    with Serve(*ANY, "--admin", "127.0.0.1:0") as node:
        yield node


@pytest.fixture
def admin(watched):
    return watched.facts["admin"].removeprefix("http://")


@pytest.mark.slow
def test_probes_answer(admin):
    assert fetch(admin, "/healthz") == (200, "ok\n")
    assert fetch(admin, "/readyz") == (200, "ready\n")
    assert fetch(admin, "/else")[0] == 404


@pytest.mark.slow
def test_the_arena_states_sum_up_to_its_size(admin):
    text = fetch(admin, "/metrics")[1]

    states = [float(value) for value in re.findall(r'gd2fs_arena_bytes\{state="\w+"\} (\S+)', text)]
    size = float(re.search(r"^gd2fs_arena_size_bytes (\S+)", text, re.M)[1])
    assert len(states) == 7 and sum(states) == size


@pytest.mark.slow
def test_counters_follow_what_clients_do(watched, admin):
    with Client(watched.address, cluster="node") as client:
        client.pages("t").put([b"key"], [bytes(100_000)])
        assert client.pages("t").get([b"key"], [bytearray(100_000)]).leading == 1

    text = fetch(admin, "/metrics")[1]

    assert float(re.search(r"^gd2fs_sent_bytes_total (\S+)", text, re.M)[1]) >= 100_000
    assert float(re.search(r'gd2fs_lookups_total\{result="hit"\} (\S+)', text)[1]) >= 1


@pytest.mark.slow
def test_an_admin_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        assert f"--admin {address}" in refused(*ANY, "--admin", address)


@pytest.mark.slow
def test_an_idle_admin_connection_does_not_keep_a_node_from_ending():
    with Serve(*ANY, "--admin", "127.0.0.1:0") as node:
        host, port = node.facts["admin"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))):
            assert node.end()[0] == 0
