"""Real nodes whose membership is in Kubernetes: what an operator does to them, and what fails."""

from __future__ import annotations

import json
import re
import threading

import pytest
from membership.proxy import Proxy
from membership.recorded_core import wait_until
from membership.stores import KubernetesStore
from membership.test_serve_etcd import (
    KEYS,
    OPTIONS,
    PATIENCE_S,
    active,
    fetch,
    gd2fs,
    map_of,
    values_of,
    wait_for_map,
)

from gd2fs import Client
from gd2fs.errors import GD2FSError
from gd2fs.testing.cluster import Cluster, free_ports

pytestmark = pytest.mark.slow

TWO_COPIES = ("--replicas", "2")


@pytest.fixture
def store(tmp_path):
    with KubernetesStore(tmp_path) as store:
        yield store


def cluster_of(store, tmp_path, count: int, *options: str) -> Cluster:
    return Cluster(
        count, "32MiB", str(tmp_path), arena="plain", membership=store.options(),
        options=(*OPTIONS, *options),
    )  # fmt: skip


@pytest.fixture
def nodes(store, tmp_path):
    with cluster_of(store, tmp_path, 3, *TWO_COPIES) as cluster:
        yield cluster


@pytest.fixture
def client(nodes):
    with Client(nodes.cp, cluster=nodes.name, timeout_s=2) as client:
        yield client


class Load:
    """A client that writes and reads until it is ended. What is wrong is in ``wrong``."""

    def __init__(self, nodes: Cluster) -> None:
        self.wrong: list[str] = []
        self.reads = 0
        self._client = Client(nodes.cp, cluster=nodes.name, timeout_s=2)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            self._write_and_read()
        except Exception as error:
            self.wrong.append(f"the load failed: {error!r}")

    def _write_and_read(self) -> None:
        said: dict[str, set[bytes]] = {}
        number = 0
        while not self._is_over.wait(0.002):
            number += 1
            path = f"/load/{number % 7}"
            value = b"%d" % number * 2000
            try:
                self._client.put(path, value)
                said[path] = {value}
            except GD2FSError:
                said.setdefault(path, set()).add(value)  # it may have come to pass
            try:
                got = self._client.get(path)
            except GD2FSError:
                continue
            self.reads += got is not None
            if got is not None and bytes(got) not in said[path]:
                self.wrong.append(f"{path} has {got[:20]!r}, written {len(said[path])}")


def test_nodes_come_die_and_return(nodes, client, store):
    wait_for_map(client, active("n0", "n1", "n2"))
    cluster = client.cluster()
    assert (cluster.provider, cluster.lease_s, cluster.replicas) == ("kubernetes", 2.0, 2)

    nodes.members[2].kill()
    wait_for_map(client, active("n0", "n1"))
    client.put("/t/file", b"bytes")
    assert client.get("/t/file") == b"bytes"
    nodes.members[2].start()

    wait_for_map(client, active("n0", "n1", "n2"))
    assert nodes.members[1].stop() == 0  # it gives its place back at once
    assert set(store.keys(nodes.name).snapshot().nodes) == {"n0", "n2"}


def test_a_drained_node_hands_over_all_it_has_and_ends_with_status_0(nodes, client):
    values = [key * 1000 for key in KEYS]
    client.pages("t").put(KEYS, values)
    process = nodes.members[1].process

    said = gd2fs("drain", "n1", "--json", "--cp", nodes.cp, "--cluster", nodes.name)

    assert json.loads(said.stdout)["has_left"] is True, said.stderr
    assert process.wait(PATIENCE_S) == 0
    wait_for_map(client, active("n0", "n2"))
    assert values_of(client) == values


def test_nodes_restarted_in_turn_under_load_never_give_wrong_bytes(nodes, client):
    with Load(nodes) as load:
        for node in nodes.members:
            before = load.reads
            wait_until(lambda at=before: load.reads > at + 20, "some reads", PATIENCE_S)
            assert node.stop() == 0
            node.start()
            wait_for_map(client, active("n0", "n1", "n2"))
            wait_until(lambda: settled(client), "the end of the moves", PATIENCE_S)
        before = load.reads
        wait_until(lambda: load.reads > before + 20, "some reads", PATIENCE_S)

    assert load.wrong == []


def settled(client: Client) -> bool:
    told = client.ping()
    same = len({each.epoch for each in told}) == 1
    return same and not any(each.moves_left + each.records_left for each in told)


def test_while_the_api_restarts_nodes_serve_on(store, tmp_path):
    with (
        cluster_of(store, tmp_path, 3, *TWO_COPIES, "--lease", "30") as nodes,
        Client(nodes.cp, cluster=nodes.name, timeout_s=2) as client,
        Load(nodes) as load,
    ):
        wait_for_map(client, active("n0", "n1", "n2"))
        epoch = client.cluster().epoch
        store.stop()
        before = load.reads
        wait_until(lambda: load.reads > before + 50, "reads without the API", PATIENCE_S)
        store.start()
        before = load.reads
        wait_until(lambda: load.reads > before + 50, "reads with it again", PATIENCE_S)

        client.ping()
        assert load.wrong == [] and client.cluster().epoch == epoch


def test_a_node_that_is_cut_off_from_the_api_is_fenced_and_returns(store, tmp_path):
    (port,) = free_ports(1)
    with (
        Proxy(store.port) as proxy,
        cluster_of(store, tmp_path, 2, *TWO_COPIES) as nodes,
        Client(nodes.cp, cluster=nodes.name, timeout_s=2) as client,
    ):
        nodes.add("--kubernetes-api", proxy.endpoint, "--admin", f"127.0.0.1:{port}")
        wait_for_map(client, active("n0", "n1", "n2"))
        client.put("/t/file", b"bytes")
        with Load(nodes) as load:
            proxy.cut()
            wait_until(lambda: fetch(port, "/readyz")[0] == 503, "not ready")
            assert fetch(port, "/readyz")[1].startswith("fenced: no keep-alive counts; ")
            wait_for_map(client, active("n0", "n1"))
            proxy.mend()
            wait_for_map(client, active("n0", "n1", "n2"))
            wait_until(lambda: fetch(port, "/readyz")[0] == 200, "ready again")

        assert load.wrong == [] and client.get("/t/file") == b"bytes"


def test_the_commands_ask_kubernetes(store, tmp_path):
    with (
        cluster_of(store, tmp_path, 2) as nodes,
        Client(nodes.cp, cluster=nodes.name, timeout_s=2) as client,
    ):
        where = ("--cp", nodes.cp, "--cluster", nodes.name, *store.options())
        table = gd2fs("cluster", "status", *where)
        status = json.loads(gd2fs("cluster", "status", "--json", *where).stdout)
        shown = json.loads(gd2fs("config", "show", "--json", *where[:4]).stdout)
        changed = gd2fs("cluster", "replicas", "kv", "2", "--json", *where[2:])

        said = r"cluster test, epoch \d+, membership kubernetes, leases 2 s, replicas 1$"
        assert re.match(said, table.stdout.splitlines()[0]), table.stderr
        assert all(0 <= each["lease_left_s"] <= 2 for each in status["nodes"])
        assert shown["nodes"]["n0"]["kubernetes"] == "storage"
        assert json.loads(changed.stdout)["replicas"] == "1,kv=2"

        def is_told() -> bool:
            client.ping()
            return client.cluster().namespaces == {"kv": 2}

        wait_until(is_told, "the new numbers")
        assert map_of(client) == active("n0", "n1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("--kubernetes", "a", "--kubernetes-api", "http://h:1", "--etcd", "http://h:2"),
            "both `--etcd` and `--kubernetes`",
        ),
        (("--kubernetes", "A_b"), "`A_b` is no namespace of Kubernetes"),
        (("--kubernetes", "a"), "this is no pod of Kubernetes"),
        (("--kubernetes", "a", "--kubernetes-api", "ftp://h:1"), "`ftp://h:1` is no URL"),
        (("--kubernetes", "a", "--kubernetes-api", "http://h:1"), "cannot read "),
    ],
)
def test_settings_that_cannot_be_are_refused(words, complaint):
    name = ("--name", "a", "--cluster", "c", "--listen", "tcp://127.0.0.1:0")
    said = gd2fs("serve", *name, *words)

    assert said.returncode == 1 and complaint in said.stderr and "Traceback" not in said.stderr
