"""A real etcd for the tests of membership, and nodes in it that are nothing but members."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from membership.recorded_core import RecordedCore

from gd2fs.membership.etcd import EtcdJoin, EtcdProvider
from gd2fs.membership.etcd_link import EtcdSettings
from gd2fs.testing.etcd import EtcdServer

LEASE_S = 2
_numbers = itertools.count(1)
_boots = itertools.count(time.time_ns() // 1000)


@pytest.fixture(scope="session")
def shared_etcd(tmp_path_factory) -> Iterator[EtcdServer]:
    """One that no test may end: take a cluster of your own in it."""
    with EtcdServer(str(tmp_path_factory.mktemp("etcd"))) as server:
        yield server


@pytest.fixture
def own_etcd(tmp_path) -> Iterator[EtcdServer]:
    """One to be stopped and started."""
    with EtcdServer(str(tmp_path)) as server:
        yield server


class Members:
    """Providers of one cluster, each with a core that remembers. Ended with the test."""

    def __init__(self, settings: EtcdSettings) -> None:
        self.settings = settings
        self.cluster = f"c{next(_numbers)}/x"
        self._started: list[EtcdProvider] = []

    def provider(self, name: str, *, boot: int = 0, **join) -> EtcdProvider:
        """One that has not joined yet."""
        port = 7000 + len(self._started)
        provider = EtcdProvider(
            self.settings,
            cluster=self.cluster,
            name=name,
            addresses=(f"127.0.0.1:{port}",),
            boot=boot or next(_boots),
            join=EtcdJoin(**({"lease_s": LEASE_S, "ramp_s": 0.0} | join)),
        )
        self._started.append(provider)
        return provider

    def start(self, name: str, **join) -> tuple[EtcdProvider, RecordedCore]:
        """One that has joined."""
        provider, core = self.provider(name, **join), RecordedCore()
        provider.first_map()
        provider.join(core, lambda: 0)
        return provider, core

    def end(self) -> None:
        for provider in self._started:
            provider.leave()


@pytest.fixture
def members(shared_etcd) -> Iterator[Members]:
    group = Members(EtcdSettings((shared_etcd.endpoint,)))
    yield group
    group.end()


@pytest.fixture
def own_members(own_etcd) -> Iterator[Members]:
    group = Members(EtcdSettings((own_etcd.endpoint,)))
    yield group
    group.end()
