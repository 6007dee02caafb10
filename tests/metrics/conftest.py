"""Two real nodes of one cluster that have seen traffic of every kind."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from membership.recorded_core import wait_until
from metrics.page import Page

from gd2fs import Client
from gd2fs.config import NodeConfig
from gd2fs.membership import parse_replicas
from gd2fs.membership.etcd_link import EtcdSettings
from gd2fs.node import Node
from gd2fs.nvme import Nvme, NvmePlace
from gd2fs.rules import NamespaceRules, RuleSet
from gd2fs.testing.cluster import free_ports
from gd2fs.testing.etcd import EtcdServer

CLUSTER = "watched"
PAGE_BYTES = 1 << 20
PAGES = 64  # more than the memory of these nodes has room for
MEMORY_BYTES = 32 << 20
TIMEOUT_S = 20.0


def config_of(name: str, port: int, etcd: str, folder: Path) -> NodeConfig:
    return NodeConfig(
        cluster=CLUSTER,
        name=name,
        listen=(f"127.0.0.1:{port}",),
        admin="127.0.0.1:0",
        memory_bytes=MEMORY_BYTES,
        arena="memfd",
        threads=2,
        etcd=EtcdSettings((etcd,)),
        lease_s=30,
        ramp_s=0.0,
        replicas=parse_replicas("1,twice=2"),
        rules=RuleSet(namespaces={"twice": NamespaceRules(quota_bytes=MEMORY_BYTES // 2)}),
        nvme=Nvme(places=(NvmePlace(str(folder), 256 << 20),)),
    )


def page_of(number: int) -> bytes:
    return random.Random(number).randbytes(PAGE_BYTES)


def use(client: Client) -> None:
    """Pages that outgrow memory, a file with copies, and look-ups of all sorts."""
    pages, into = client.pages("kv"), bytearray(PAGE_BYTES)
    for number in range(PAGES):
        pages.put([f"page{number}"], [page_of(number)], timeout_s=TIMEOUT_S)
    for number in range(PAGES):
        pages.get([f"page{number}"], [into], timeout_s=TIMEOUT_S)
    pages.exists(["page0", "no page"])
    pages.get(["no page"], [into])
    pages.drop(["page1"])
    pages.get(["page1"], [into])
    for number in range(8):
        client.put(f"/twice/file{number}", random.randbytes(2 << 20), timeout_s=TIMEOUT_S)
        client.get(f"/twice/file{number}", timeout_s=TIMEOUT_S)
    client.ping()


def offend(address: str) -> None:
    """A stream that is refused."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n".ljust(64, b"\0"))
        while stranger.recv(4096):
            pass


@pytest.fixture(scope="session")
def watched_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Node]]:
    with ExitStack() as ends:
        etcd = ends.enter_context(EtcdServer(str(tmp_path_factory.mktemp("etcd"))))
        nodes = []
        for name, port in zip("ab", free_ports(2), strict=True):
            config = config_of(name, port, etcd.endpoint, tmp_path_factory.mktemp(name))
            nodes.append(ends.enter_context(Node.start(config)))
        wait_until(lambda: all(not node.why_not_ready() for node in nodes), "readiness", TIMEOUT_S)
        wait_until(lambda: all(node.nodes == 2 for node in nodes), "one map", TIMEOUT_S)
        for transport in ("tcp", "auto"):
            with Client(nodes[0].addresses, cluster=CLUSTER, transport=transport) as client:
                use(client)
        offend(nodes[0].addresses[0])
        yield nodes


@pytest.fixture
def pages(watched_nodes: Sequence[Node]) -> list[Page]:
    """What both nodes say now."""
    return [Page.of(str(node.admin_address)) for node in watched_nodes]
