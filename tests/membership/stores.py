"""Stores of the membership as the contract's tests use them: a real etcd, an API of Kubernetes.

What a test does to one of them it does to the other: ends it, forgets events, takes a node away.
"""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Protocol

from membership.kubernetes_api import NAMESPACE, KubernetesApi

from gd2fs.membership.etcd import EtcdProvider
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings, encoded
from gd2fs.membership.kubernetes import KubernetesProvider
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_link import KubernetesLink, KubernetesSettings
from gd2fs.membership.kubernetes_names import map_name
from gd2fs.membership.leased import LeasedProvider, Place
from gd2fs.membership.state import NODES, SETTINGS, LeftBy
from gd2fs.testing.etcd import EtcdServer

KINDS = ("etcd", "kubernetes")
TIMEOUT_S = 10.0


class Store(Protocol):
    """What keeps the membership of the tests."""

    kind: str
    port: int
    url: str

    def provider(self, where: str, place: Place) -> LeasedProvider: ...
    def keys(self, cluster: str) -> EtcdKeys | KubernetesKeys: ...
    def options(self) -> list[str]:
        """How `gd2fs` is told of it."""

    def stop(self) -> None: ...
    def start(self) -> None: ...
    def empty(self) -> None:
        """Begin anew without anything, after ``stop``."""

    def take_away(self, cluster: str, name: str) -> None:
        """As an operator might."""

    def put_junk(self, cluster: str, key: str) -> None:
        """A value that nobody can read."""

    def forget(self, cluster: str) -> None:
        """What happened until now cannot be asked for any more."""

    def crash(self, provider: LeasedProvider) -> None:
        """Keep it from doing anything more, as a kill would."""


class EtcdStore:
    kind = "etcd"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server = EtcdServer(str(folder))

    def __enter__(self) -> EtcdStore:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def url(self) -> str:
        return self.server.endpoint

    def options(self) -> list[str]:
        return ["--etcd", self.url]

    def provider(self, where: str, place: Place) -> LeasedProvider:
        return EtcdProvider(EtcdSettings((where,)), place)

    def keys(self, cluster: str) -> EtcdKeys:
        return EtcdKeys(EtcdLink(EtcdSettings((self.url,)), TIMEOUT_S), cluster)

    def stop(self) -> None:
        self.server.kill(signal.SIGTERM)

    def start(self) -> None:
        self.server.start()

    def empty(self) -> None:
        shutil.rmtree(self._folder / "etcd")

    def take_away(self, cluster: str, name: str) -> None:
        keys = self.keys(cluster)
        keys.link.call("/kv/deleterange", {"key": encoded(keys.prefix + NODES + name)})

    def put_junk(self, cluster: str, key: str) -> None:
        keys = self.keys(cluster)
        keys.link.call("/kv/put", {"key": encoded(keys.prefix + key), "value": encoded("no json")})

    def forget(self, cluster: str) -> None:
        keys = self.keys(cluster)
        keys.link.call("/kv/compaction", {"revision": keys.snapshot().revision})

    def crash(self, provider: LeasedProvider) -> None:
        _silence(provider)
        provider._lease = 0  # type: ignore[attr-defined]


class KubernetesStore:
    kind = "kubernetes"

    def __init__(self, folder: Path) -> None:
        self.api = KubernetesApi(folder / "account")

    def __enter__(self) -> KubernetesStore:
        self.api.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.api.stop()

    @property
    def port(self) -> int:
        return self.api.port

    @property
    def url(self) -> str:
        return self.api.url

    def settings(self, where: str = "") -> KubernetesSettings:
        return KubernetesSettings(NAMESPACE, where or self.url, str(self.api.account))

    def options(self) -> list[str]:
        account = str(self.api.account)
        words = ["--kubernetes", NAMESPACE, "--kubernetes-api", self.url]
        return [*words, "--kubernetes-account", account]

    def provider(self, where: str, place: Place) -> LeasedProvider:
        return KubernetesProvider(self.settings(where), place)

    def keys(self, cluster: str) -> KubernetesKeys:
        return KubernetesKeys(KubernetesLink(self.settings(), TIMEOUT_S), cluster)

    def stop(self) -> None:
        self.api.stop()

    def start(self) -> None:
        self.api.start()

    def empty(self) -> None:
        self.api.objects.stored.clear()

    def take_away(self, cluster: str, name: str) -> None:
        self.keys(cluster).remove(name, lease_max=1 << 31, left_by=LeftBy.REMOVAL)

    def put_junk(self, cluster: str, key: str) -> None:
        if key == SETTINGS:
            data = {"epoch": "7", "nodes": "{}", "changes": "[]"}
            data["settings"] = json.dumps({"epoch": 7, "value": "none"})
            meta = {"name": map_name(cluster), "annotations": {"gd2fs/epoch": "7"}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            self.api.objects.create(("configmaps", NAMESPACE, map_name(cluster)), body)
            return
        from gd2fs.membership.state import Put

        self.keys(cluster)._change(lambda _: [Put(key, b'"no node"', 0)])

    def forget(self, cluster: str) -> None:
        """Of the API what a watch could begin with, of the map the changes that led there."""
        self.api.objects.forget()
        key = ("configmaps", NAMESPACE, map_name(cluster))
        now = json.loads(json.dumps(self.api.objects.stored[key]))
        now["data"]["changes"] = "[]"
        self.api.objects.replace(key, now)

    def crash(self, provider: LeasedProvider) -> None:
        provider._neighbours.stop()  # type: ignore[attr-defined]
        _silence(provider)
        provider._held = None  # type: ignore[attr-defined]


STORES = {"etcd": EtcdStore, "kubernetes": KubernetesStore}


def _silence(provider: LeasedProvider) -> None:
    provider._is_stopping.set()
    provider._thread.join()
    assert provider._follower is not None
    provider._follower.stop()
