"""A browser, and clusters for it to look at."""

from __future__ import annotations

import pytest
from dashboard.chromium import Chromium, find_chromium
from dashboard.simulated import SimulatedCluster, page_of, served

from gd2fs import Client
from gd2fs.testing.cluster import Cluster


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if not find_chromium():
        pytest.skip("there is no chromium here: `.ci/deps browser` installs it")
    with Chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def many():
    """The URL of a page about a thousand nodes that are only numbers."""
    with served(SimulatedCluster(1000)) as url:
        yield url


def _nodes(directory, name: str) -> Cluster:
    options = ["--admin", "127.0.0.1:0"]
    return Cluster(3, "64MiB", str(directory), arena="plain", name=name, options=options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes of a list, each with its page; no test may end them."""
    with _nodes(tmp_path_factory.mktemp("nodes"), "seen") as running:
        yield running


@pytest.fixture
def fragile(tmp_path):
    """The same, to be broken."""
    with _nodes(tmp_path, "fragile") as running:
        yield running


@pytest.fixture
def client(cluster):
    with Client(cluster.cp, cluster=cluster.name, timeout_s=20) as connected:
        yield connected


@pytest.fixture
def pages_of(cluster):
    """Where each node's page is, by its name."""
    return {node.name: page_of(node) for node in cluster.members}
