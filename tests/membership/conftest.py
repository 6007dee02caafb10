"""Stores of the membership for its tests, each of them shared or of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from membership.members import Members
from membership.stores import STORES, EtcdStore, KubernetesStore, Store

from gd2fs.testing.etcd import EtcdServer


@pytest.fixture(scope="session")
def etcd_store(tmp_path_factory) -> Iterator[EtcdStore]:
    with EtcdStore(tmp_path_factory.mktemp("etcd")) as store:
        yield store


@pytest.fixture(scope="session")
def kubernetes_store(tmp_path_factory) -> Iterator[KubernetesStore]:
    with KubernetesStore(tmp_path_factory.mktemp("kubernetes")) as store:
        yield store


@pytest.fixture
def shared_etcd(etcd_store) -> EtcdServer:
    """One that no test may end: take a cluster of your own in it."""
    return etcd_store.server


@pytest.fixture
def own_etcd(tmp_path) -> Iterator[EtcdServer]:
    """One to be stopped and started."""
    with EtcdServer(str(tmp_path)) as server:
        yield server


@pytest.fixture(params=list(STORES))
def store(request) -> Store:
    """Each of them in turn, one that no test may end."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture(params=list(STORES))
def own_store(request, tmp_path) -> Iterator[Store]:
    """Each of them in turn, to be stopped and started."""
    with STORES[request.param](tmp_path) as store:
        yield store


@pytest.fixture
def members(store) -> Iterator[Members]:
    group = Members(store)
    yield group
    group.end()


@pytest.fixture
def own_members(own_store) -> Iterator[Members]:
    group = Members(own_store)
    yield group
    group.end()
