"""KubernetesLeases: one Lease object for each node, changed by compare-and-swap alone.

A node that keeps its lease writes it again and again. Who takes a silent node out first writes its
lease as held by nobody: whichever write comes second fails, so from then on the node knows, with
its next keep-alive, and nothing that it sent before can count any more.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gd2fs.errors import Unavailable
from gd2fs.membership.kubernetes_link import (
    CONFLICT,
    CREATED,
    NOT_FOUND,
    OK,
    Answer,
    KubernetesLink,
)
from gd2fs.membership.kubernetes_names import labels_of, lease_name

UNKNOWN = 1  # a holder that is no boot: somebody whom nobody knows


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A Lease object as it was seen.

    Attributes:
        node: Whose it is.
        holder: Boot of the process that holds it; 0: nobody.
        term: Grows each time that it is taken.
        version: What the API calls this version of it.
        left_s: What it has to live by the clocks of two machines: for people, never for decisions.
    """

    node: str
    holder: int
    term: int
    version: str
    left_s: float = 0.0


class KubernetesLeases:
    """Of one cluster, through one link. Raises as ``KubernetesLink.call``."""

    def __init__(self, link: KubernetesLink, cluster: str, lease_s: int) -> None:
        self._link = link
        self._cluster = cluster
        self.lease_s = lease_s

    def read(self, node: str) -> HeldLease | None:
        """The lease of a node; None when there is no such object."""
        answer = self._link.call("GET", self._path(node))
        return None if answer.status == NOT_FOUND else _held(node, answer.object)

    def take(self, node: str, boot: int, *, seen: HeldLease | None, term: int) -> HeldLease | None:
        """Hold it from now on, as ``term``; None when it is not as it was ``seen`` any more."""
        body = self._body(node, boot, term, seen.version if seen else "")
        if seen is None:
            answer = self._link.call("POST", self._path(""), body)
        else:
            answer = self._link.call("PUT", self._path(node), body)
        return self._written(node, answer)

    def renew(self, held: HeldLease) -> HeldLease | None:
        """Hold it longer; None when it is not as it was."""
        renewed = self.take(held.node, held.holder, seen=held, term=held.term)
        if renewed and renewed.version == held.version:
            raise Unavailable(
                f"the lease of {held.node} was not written", hint="did this machine's clock stop?"
            )
        return renewed

    def fence(self, seen: HeldLease) -> HeldLease | None:
        """Have nobody hold it; None when it is not as it was ``seen`` any more."""
        body = self._body(seen.node, 0, seen.term, seen.version)
        return self._written(seen.node, self._link.call("PUT", self._path(seen.node), body))

    def remove(self, seen: HeldLease) -> None:
        """Take the object away, if it is as it was."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": seen.version},
        }
        self._link.call("DELETE", self._path(seen.node), options)

    def _written(self, node: str, answer: Answer) -> HeldLease | None:
        if answer.status in (OK, CREATED):
            return _held(node, answer.object)
        if answer.status in (CONFLICT, NOT_FOUND):
            return None
        raise Unavailable(
            f"the lease of {node} could not be written: status {answer.status}",
            hint="is there a namespace of that name?",
        )

    def _body(self, node: str, boot: int, term: int, version: str) -> dict[str, Any]:
        now = time.time()
        micro = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
        spec = {"leaseDurationSeconds": self.lease_s, "leaseTransitions": term, "renewTime": micro}
        meta = {
            "name": lease_name(self._cluster, node),
            "namespace": self._link.settings.namespace,
            "labels": labels_of(self._cluster),
            "annotations": {"gd2fs/node": node, "gd2fs/cluster": self._cluster},
        }
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta | ({"resourceVersion": version} if version else {}),
            "spec": spec | ({"holderIdentity": str(boot)} if boot else {}),
        }

    def _path(self, node: str) -> str:
        root = f"/apis/coordination.k8s.io/v1/namespaces/{self._link.settings.namespace}/leases"
        return f"{root}/{lease_name(self._cluster, node)}" if node else root


def _held(node: str, lease: Mapping[str, Any]) -> HeldLease:
    spec, meta = lease.get("spec") or {}, lease.get("metadata") or {}
    return HeldLease(
        node,
        _boot_of(str(spec.get("holderIdentity") or "")),
        int(spec.get("leaseTransitions") or 0),
        str(meta.get("resourceVersion", "")),
        _left_s(str(spec.get("renewTime") or ""), int(spec.get("leaseDurationSeconds") or 0)),
    )


def _boot_of(holder: str) -> int:
    if not holder:
        return 0
    return int(holder) if holder.isascii() and holder.isdigit() else UNKNOWN


def _left_s(renewed: str, lease_s: int) -> float:
    try:
        at = time.strptime(renewed.partition(".")[0].removesuffix("Z"), "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return 0.0
    return max(0.0, calendar.timegm(at) + lease_s - time.time())
