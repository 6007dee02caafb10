"""Members of a cluster that are nothing but members: providers, each with a core that remembers."""

from __future__ import annotations

import itertools
import time

from membership.recorded_core import RecordedCore
from membership.stores import Store

from gd2fs.membership.leased import LeasedProvider, Place

LEASE_S = 2
_numbers = itertools.count(1)
_boots = itertools.count(time.time_ns() // 1000)


class Members:
    """Providers of one cluster, each with a core that remembers. Ended with the test.

    ``where``: a way to the store, else its own address.
    """

    def __init__(self, store: Store, *, where: str = "", cluster: str = "") -> None:
        self.store = store
        self.where = where
        self.cluster = cluster or f"c{next(_numbers)}/x"
        self._started: list[LeasedProvider] = []

    def provider(self, name: str, *, boot: int = 0, **place) -> LeasedProvider:
        """One that has not joined yet."""
        port = 7000 + len(self._started)
        how = {"lease_s": LEASE_S, "ramp_s": 0.0} | place
        at = (f"127.0.0.1:{port}",)
        provider = self.store.provider(
            self.where or self.store.url,
            Place(self.cluster, name, at, boot or next(_boots), **how),
        )
        self._started.append(provider)
        return provider

    def start(self, name: str, **place) -> tuple[LeasedProvider, RecordedCore]:
        """One that has joined."""
        provider, core = self.provider(name, **place), RecordedCore()
        provider.first_map()
        provider.join(core, lambda: 0)
        return provider, core

    def keys(self):
        """Of the cluster in its store."""
        return self.store.keys(self.cluster)

    def apart(self, where: str) -> Members:
        """Others of the same cluster, which reach the store another way."""
        return Members(self.store, where=where, cluster=self.cluster)

    def end(self) -> None:
        for provider in self._started:
            provider.leave()
