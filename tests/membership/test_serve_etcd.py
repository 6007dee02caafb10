"""Real nodes on a real etcd: they come, die, hang and go, and clients see it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from membership.recorded_core import wait_until

from gd2fs import Client
from gd2fs.errors import Unavailable
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings
from gd2fs.testing.cluster import Cluster, NodeProcess, free_ports

pytestmark = pytest.mark.slow

OPTIONS = ("--lease", "2", "--ramp", "0")
PATIENCE_S = 30.0


@pytest.fixture
def nodes(request, shared_etcd, tmp_path):
    """Three of one cluster; a test asks for another number by a marker `nodes_of`."""
    marker = request.node.get_closest_marker("nodes_of")
    count = marker.args[0] if marker else 3
    name = re.sub(r"\W", "-", request.node.name)
    with Cluster(
        count, "32MiB", str(tmp_path), arena="plain", name=name, etcd=shared_etcd.endpoint,
        options=OPTIONS,
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def client(nodes):
    with Client(nodes.cp, cluster=nodes.name, timeout_s=2) as client:
        yield client


def map_of(client: Client) -> dict[str, str]:
    return {node.name: node.state for node in client.cluster().nodes if node.state != "gone"}


def wait_for_map(client: Client, expected: dict[str, str]) -> None:
    """Clients hear of maps when they ask for something."""

    def is_so() -> bool:
        client.ping()
        return map_of(client) == expected

    wait_until(is_so, f"the map {expected}", PATIENCE_S)


def active(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "active")


def test_nodes_see_each_other_in_one_epoch(nodes, client):
    wait_for_map(client, active("n0", "n1", "n2"))

    def epochs():
        return {node.epoch for node in client.ping()}

    wait_until(lambda: len(epochs()) == 1, "one epoch")
    cluster = client.cluster()
    assert (cluster.provider, cluster.lease_s, cluster.replicas) == ("etcd", 2.0, 1)
    assert {each.weight for each in cluster.nodes} == {100}


def test_a_killed_node_is_out_after_its_lease_and_may_return(nodes, client):
    nodes.members[2].kill()

    wait_for_map(client, active("n0", "n1"))
    client.put("/t/file", b"bytes")
    assert client.get("/t/file") == b"bytes"

    nodes.members[2].start()
    wait_for_map(client, active("n0", "n1", "n2"))


def test_a_node_that_hangs_is_out_and_joins_again_with_what_it_has(nodes, client):
    hanging = nodes.members[2]
    boots = {node.name: node.boot for node in client.ping()}
    client.pages("t").put([b"%d" % n for n in range(64)], [b"value"] * 64)
    hanging.send(signal.SIGSTOP)
    wait_for_map(client, active("n0", "n1"))

    hanging.send(signal.SIGCONT)

    wait_for_map(client, active("n0", "n1", "n2"))
    assert {node.name: node.boot for node in client.ping()} == boots
    wait_until(
        lambda: all(client.pages("t").exists([b"%d" % n for n in range(64)]).present),
        "all pages at their places",
    )
    assert "the lease of `n2` was lost: it joins again" in hanging.last_words()


@pytest.mark.nodes_of(2)
def test_a_node_that_is_ended_gives_its_place_back_at_once(nodes, client, shared_etcd):
    start = time.monotonic()

    assert nodes.members[1].stop() == 0

    keys = EtcdKeys(EtcdLink(EtcdSettings((shared_etcd.endpoint,)), 2.0), nodes.name)
    assert set(keys.snapshot().nodes) == {"n0"}
    assert time.monotonic() - start < PATIENCE_S
    wait_for_map(client, active("n0"))


@pytest.mark.nodes_of(1)
def test_two_processes_of_one_name_are_refused(nodes):
    first = nodes.members[0]
    twin = NodeProcess("n0", 0, list(first.command), first.log + ".twin")
    at = twin.command.index("--listen") + 1
    twin.command[at] = "tcp://127.0.0.1:0"

    with pytest.raises(Unavailable, match=f"is node `n0` at {first.address}") as refused:
        twin.start()

    assert "--name" in refused.value.hint


def test_a_node_that_waits_for_its_name_can_be_ended(own_etcd, tmp_path):
    options = ("--lease", "600")
    with Cluster(1, "32MiB", str(tmp_path), etcd=own_etcd.endpoint, options=options) as nodes:
        first = nodes.members[0]
        waiting = NodeProcess("n0", 0, list(first.command), first.log + ".again")
        waiting.command[waiting.command.index("--listen") + 1] = "tcp://127.0.0.1:0"
        first.kill()
        waiting.launch()
        wait_until(lambda: "waiting for its end" in waiting.last_words(), "waiting")

        assert waiting.stop() == 0


@pytest.mark.nodes_of(1)
def test_a_node_grows_into_its_place(nodes, client):
    nodes.add("--ramp", "1", "--weight", "40")

    seen = set()

    def is_grown() -> bool:
        client.ping()
        seen.update((n.weight, n.state) for n in client.cluster().nodes if n.name == "n1")
        return (40, "active") in seen

    wait_until(is_grown, "the whole weight", PATIENCE_S)
    assert seen <= {(10, "joining"), (20, "joining"), (40, "active")}


# ---- growing and shrinking -----------------------------------------------------------------------

KEYS = [b"%d" % at for at in range(256)]


def values_of(client: Client) -> list[bytes | None]:
    """All pages; None: a miss."""
    into = [bytearray(8192) for _ in KEYS]
    sizes = client.pages("t").get(KEYS, into).sizes
    return [None if n is None else bytes(part[:n]) for n, part in zip(sizes, into, strict=True)]


def test_a_drained_node_hands_over_all_it_has_and_ends_with_status_0(nodes, client):
    values = [key * 1000 for key in KEYS]
    client.pages("t").put(KEYS, values)
    going = nodes.members[1]
    process = going.process

    said = gd2fs("drain", "n1", "--json", "--cp", nodes.cp, "--cluster", nodes.name)

    assert json.loads(said.stdout)["has_left"] is True, said.stderr
    assert process.wait(PATIENCE_S) == 0
    assert "left name=n1: all is handed over" in process.stdout.read()
    wait_for_map(client, active("n0", "n2"))
    assert values_of(client) == values


@pytest.mark.nodes_of(2)
def test_nothing_is_missed_while_a_node_grows_into_its_place(nodes, client):
    values = [key * 1000 for key in KEYS]
    client.pages("t").put(KEYS, values)

    nodes.add("--ramp", "1")

    def is_grown() -> bool:
        assert values_of(client) == values
        return map_of(client) == active("n0", "n1", "n2")

    wait_until(is_grown, "the whole weight", PATIENCE_S)
    wait_until(lambda: all(node.moves_left == 0 for node in client.ping()), "the last moves")
    assert values_of(client) == values
    with Client(nodes.members[2].address, cluster=nodes.name) as direct:
        used = {node.name: node.arena_bytes - node.arena_free_bytes for node in direct.ping()}
    assert used["n2"] > 0


# ---- the admin side, and the commands ------------------------------------------------------------


def fetch(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_fenced_node_says_so(own_etcd, tmp_path):
    (port,) = free_ports(1)
    options = (*OPTIONS, "--admin", f"127.0.0.1:{port}")
    with Cluster(1, "32MiB", str(tmp_path), etcd=own_etcd.endpoint, options=options):
        assert fetch(port, "/readyz") == (200, "ready\n")
        assert 'gd2fs_state{state="active"} 1.0' in fetch(port, "/metrics")[1]

        own_etcd.kill()

        wait_until(lambda: fetch(port, "/readyz")[0] == 503, "not ready")
        assert fetch(port, "/readyz")[1].startswith("fenced: no keep-alive counts; ")
        assert "gd2fs_lease_left_seconds 0.0" in fetch(port, "/metrics")[1]
        own_etcd.start()
        wait_until(lambda: fetch(port, "/readyz")[0] == 200, "ready again")


def gd2fs(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gd2fs", *words], capture_output=True, text=True, timeout=60
    )


@pytest.mark.nodes_of(2)
def test_cluster_status_shows_the_map(nodes, shared_etcd):
    where = ("--cp", nodes.cp, "--cluster", nodes.name, "--etcd", shared_etcd.endpoint)

    table = gd2fs("cluster", "status", *where)
    status = json.loads(gd2fs("cluster", "status", "--json", *where).stdout)

    lines = table.stdout.splitlines()
    assert re.match(r"cluster \S+, epoch \d+, membership etcd, leases 2 s, replicas 1$", lines[0])
    assert [line.split()[:3] for line in lines[2:]] == [[f"n{n}", "active", "100"] for n in (0, 1)]
    assert max(len(line) for line in lines[1:]) <= 80
    assert status["provider"] == "etcd" and status["lease_s"] == 2
    assert [node["name"] for node in status["nodes"]] == ["n0", "n1"]
    assert all(node["answers"] and 0 <= node["lease_left_s"] <= 2 for node in status["nodes"])


@pytest.mark.nodes_of(1)
def test_replicas_are_changed_while_all_runs(nodes, client, shared_etcd):
    where = ("--cluster", nodes.name, "--etcd", shared_etcd.endpoint)

    changed = json.loads(gd2fs("cluster", "replicas", "kv", "3", "--json", *where).stdout)
    assert changed["replicas"] == "1,kv=3"
    assert gd2fs("cluster", "replicas", "default", "2", *where).returncode == 0

    def is_told() -> bool:
        client.ping()
        now = client.cluster()
        return (now.replicas, now.namespaces) == (2, {"kv": 3})

    wait_until(is_told, "the new numbers")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("replicas", "kv", "9"), "9 replicas"),
        (("replicas", "a/b", "2"), "`a/b` is no namespace"),
        (("replicas", "kv", "2"), "no cluster has its nodes under `/gd2fs/nobody/`"),
    ],
)
def test_replicas_that_cannot_be_are_refused(shared_etcd, words, complaint):
    said = gd2fs("cluster", *words, "--cluster", "nobody", "--etcd", shared_etcd.endpoint)

    assert said.returncode == 1 and complaint in said.stderr and "hint: " in said.stderr


def test_without_etcd_replicas_are_not_changed():
    said = gd2fs("cluster", "replicas", "kv", "2", "--cluster", "nobody")

    assert said.returncode == 1 and "no etcd is named" in said.stderr


@pytest.mark.nodes_of(1)
def test_the_last_node_cannot_be_drained(nodes):
    said = gd2fs("drain", "n0", "--cp", nodes.cp, "--cluster", nodes.name)

    assert said.returncode == 1 and "no other node" in said.stderr


@pytest.mark.nodes_of(1)
def test_a_node_that_is_not_there_cannot_be_drained(nodes):
    said = gd2fs("drain", "nobody", "--cp", nodes.cp, "--cluster", nodes.name)

    assert said.returncode == 1
    assert "no node `nobody` in this cluster" in said.stderr
    assert "hint: there is n0" in said.stderr


def test_a_static_list_cannot_be_drained(tmp_path):
    with Cluster(2, "32MiB", str(tmp_path), arena="plain") as pair:
        said = gd2fs("drain", "n0", "--cp", pair.cp, "--cluster", pair.name)

    assert said.returncode == 1 and "static list" in said.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--peers", "a=127.0.0.1:1", "--etcd", "http://127.0.0.1:2"), "`--peers` and `--etcd`"),
        (("--etcd", "http://127.0.0.1:2"), "this node has no name"),
        (("--etcd", "ftp://h:1", "--name", "a"), "no endpoint of etcd"),
        (("--etcd", "http://127.0.0.1:2", "--name", "a"), "etcd at http://127.0.0.1:2 does not"),
        (("--lease", "0"), "a lease of 0 s"),
        (("--ramp", "nan"), "a ramp of nan s"),
        (("--weight", "0"), "a weight of 0"),
        (("--replicas", "two"), "`two` is no number of replicas"),
        (("--etcd", "https://h:1", "--name", "a", "--etcd-ca", "/no/ca"), "cannot read /no/ca"),
        (("--etcd", "https://h:1", "--name", "a", "--etcd-key", __file__), "without its key"),
    ],
)
def test_settings_that_cannot_be_are_refused(words, complaint):
    said = gd2fs("serve", "--cluster", "c", "--listen", "tcp://127.0.0.1:0", *words)

    assert said.returncode == 1 and complaint in said.stderr and "Traceback" not in said.stderr
