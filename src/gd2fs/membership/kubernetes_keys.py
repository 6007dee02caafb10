"""KubernetesKeys: what is read and written of one cluster's map in Kubernetes.

The map is one ConfigMap. Each change of it is a compare-and-swap on its version, and the next
epoch. What a node says is the same as in etcd: its key `nodes/NAME`, and the key `settings`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.follower import Compacted
from gd2fs.membership.kubernetes_link import (
    CONFLICT,
    CREATED,
    GONE,
    NOT_FOUND,
    OK,
    KubernetesLink,
    Object,
)
from gd2fs.membership.kubernetes_map import MapObject, read_map
from gd2fs.membership.kubernetes_names import labels_of, map_name
from gd2fs.membership.state import (
    NODES,
    SETTINGS,
    ClusterState,
    Delete,
    Event,
    LeftBy,
    Member,
    Put,
    Settings,
    write_member,
    write_settings,
)

EPOCH = "gd2fs/epoch"  # annotation: enough to see that nothing was missed
METADATA_ALONE = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;q=0.9"
)
TRIES_MAX = 8  # of one change, while others make theirs; then whoever wants it asks again
PAUSE_S_MAX = 0.2  # between two tries
WATCH_S = 240  # after so long the API ends a watch by itself


@dataclass(frozen=True, slots=True)
class Head:
    """What a version of the map is, without its content."""

    uid: str
    epoch: int


class KubernetesKeys:
    """The map of ``cluster``, through one link. Raises as ``KubernetesLink.call``."""

    def __init__(self, link: KubernetesLink, cluster: str) -> None:
        self.link = link
        self.name = map_name(cluster)
        self._cluster = cluster
        self._root = f"/api/v1/namespaces/{link.settings.namespace}/configmaps"

    @property
    def place(self) -> str:
        """Where they are, for messages."""
        return f"configmap/{self.name}"

    # ---- reading -------------------------------------------------------------------------------

    def read(self) -> MapObject:
        """All of it, as a majority of the API's store has it; empty when there is none."""
        answer = self.link.call("GET", f"{self._root}/{self.name}")
        return MapObject() if answer.status == NOT_FOUND else read_map(answer.object)

    def head(self) -> Head | None:
        """The newest epoch, by a small answer of a majority; None when there is no map."""
        answer = self.link.call("GET", f"{self._root}/{self.name}", accept=METADATA_ALONE)
        if answer.status == NOT_FOUND:
            return None
        meta = answer.object.get("metadata", {})
        epoch = (meta.get("annotations") or {}).get(EPOCH, "")
        if not epoch.isdigit():
            raise Unavailable(
                f"ConfigMap {self.name} has no annotation {EPOCH}",
                hint="somebody changed it by hand: undo that",
            )
        return Head(str(meta.get("uid", "")), int(epoch))

    def snapshot(self) -> ClusterState:
        """What is known of the cluster now."""
        return self.read().state()

    def watch(self, version: str, silence_s: float) -> Iterator[tuple[str, MapObject | None]]:
        """Versions of the map after ``version``; None with one that changed something else.

        Raises:
            Compacted: The API has forgotten that version.
        """
        path = (
            f"{self._root}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}"
            f"&fieldSelector=metadata.name%3D{self.name}&resourceVersion={version}"
        )
        with self.link.lines(path, silence_s) as lines:
            for line in lines:
                yield self._event_of(line)

    def _event_of(self, line: bytes) -> tuple[str, MapObject | None]:
        event: dict[str, Any] = json.loads(line)
        kind, seen = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            if seen.get("code") == GONE or seen.get("reason") in ("Expired", "Gone"):
                raise Compacted
            raise Unavailable(
                f"the API of Kubernetes ended a watch: {seen.get('message')}",
                hint="it is tried again",
            )
        version = str(seen.get("metadata", {}).get("resourceVersion", ""))
        return version, read_map(seen) if kind in ("ADDED", "MODIFIED") else None

    # ---- writing -------------------------------------------------------------------------------

    def put_member(self, member: Member, lease: int, *, expected_revision: int) -> int:
        """Put the node's key, which must have been put with ``expected_revision`` (0: be absent).

        Call it while holding ``lease``: what stands under an older one of that node left with it.

        Returns:
            The epoch of the put; 0 when the key is another one by now.
        """
        put = Put(NODES + member.name, write_member(member), 0, lease)
        return self._change(lambda now: _put_if(now, put, expected_revision))

    def put_settings(self, settings: Settings, *, expected_revision: int) -> int:
        """As ``put_member``, for the settings. The first ones make the object."""
        put = Put(SETTINGS, write_settings(settings), 0)
        return self._change(lambda now: _put_if(now, put, expected_revision))

    def remove(self, name: str, *, lease_max: int, left_by: LeftBy) -> int:
        """Take a node out that stands there under ``lease_max`` or an older lease.

        Returns:
            The epoch of that; 0 when it is not there, or under a newer lease.
        """

        def edit(now: MapObject) -> list[Event]:
            held = now.puts.get(NODES + name)
            is_meant = held is not None and held.lease <= lease_max
            return [Delete(NODES + name, 0, left_by)] if is_meant else []

        return self._change(edit)

    def _change(self, edit: Callable[[MapObject], list[Event]]) -> int:
        for tried in range(TRIES_MAX):
            now = self.read()
            events = edit(now)
            if not events:
                return 0
            after = now.with_changes(events, first_epoch=int(time.time()))
            if self._write(after):
                return after.epoch
            time.sleep(random.uniform(0, min(PAUSE_S_MAX, 0.01 * 2**tried)))
        raise Unavailable(
            f"others change ConfigMap {self.name} all the time", hint="it is tried again"
        )

    def _write(self, after: MapObject) -> bool:
        """Whether the object was still as it was read."""
        meta: Object = {
            "name": self.name,
            "namespace": self.link.settings.namespace,
            "labels": labels_of(self._cluster),
            "annotations": {"gd2fs/cluster": self._cluster, EPOCH: str(after.epoch)},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "data": after.as_data(), "metadata": meta}
        if after.version:
            meta |= {"resourceVersion": after.version, "uid": after.uid}
            answer = self.link.call("PUT", f"{self._root}/{self.name}", body)
        else:
            answer = self.link.call("POST", self._root, body)
        if answer.status in (OK, CREATED):
            return True
        if answer.status == CONFLICT or (after.version and answer.status == NOT_FOUND):
            return False
        raise InvalidRequest(
            f"ConfigMap {self.name} could not be written: status {answer.status}",
            hint=f"is there a namespace {self.link.settings.namespace}?",
        )


def _put_if(now: MapObject, put: Put, expected_revision: int) -> list[Event]:
    held = now.puts.get(put.key)
    if (held.revision if held else 0) != expected_revision:
        return []
    if held and put.key.startswith(NODES) and held.lease != put.lease:
        return [Delete(put.key, 0, LeftBy.LEASE), put]
    return [put]
