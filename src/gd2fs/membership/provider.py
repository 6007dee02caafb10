"""Provider: where a node learns which nodes there are.

A node asks its provider for the first map, starts the core with it, and then has the provider join.
From then on the provider tells the core every map in order, and until when it may answer for the
records of files, until the node leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from gd2fs.membership.state import ClusterMap, NodeState

CoreNode = tuple[str, list[str], int, int, int, int]


class Core(Protocol):
    """What a provider needs of ``_core.Server``."""

    def apply_map(
        self,
        epoch: int,
        nodes: list[CoreNode],
        *,
        replicas: int,
        namespaces: list[tuple[str, int]],
        is_gap: bool,
    ) -> None:
        """Take the next map. ``is_gap``: maps before it were missed."""

    def set_lease(self, until_boottime_ms: int) -> None:
        """Answer for records until then, of CLOCK_BOOTTIME; 0: not any more."""

    def is_draining_wished(self) -> bool:
        """Somebody asked this node to leave."""

    def counts(self) -> dict[str, int]:
        """How far the work is that maps caused, among others."""


class Provider(Protocol):
    """Membership of one node.

    Attributes:
        kind: ``static``, ``etcd`` or ``kubernetes``.
        name: Of this node.
        is_over: Set when this node has no place in the cluster any more; ``fault`` says why, empty
            when it was asked to go.
    """

    kind: str
    name: str
    is_over: threading.Event
    fault: str

    def first_map(self) -> ClusterMap:
        """The map to start the core with. This node is in it, gone when it has yet to join.

        Raises:
            InvalidRequest: This node cannot be of that cluster.
            Unavailable: The cluster could not be asked.
        """

    def join(self, core: Core, moves_left: Callable[[], int | None] = lambda: None) -> None:
        """Become a node that others know. The core is told the maps from now on.

        Args:
            core: Of this node, started with the first map.
            moves_left: What all nodes together have yet to move; None: not known now.

        Raises:
            InvalidRequest, Unavailable: As ``first_map``.
        """

    def leave(self) -> None:
        """Go away cleanly. The core is told nothing any more. A second call does nothing."""

    def why_not_ready(self) -> str:
        """Why this node should get no traffic; empty when it should."""

    def nodes(self) -> int:
        """How many nodes the newest map has."""

    def state(self) -> NodeState:
        """This node's in the newest map."""

    def lease_left_s(self) -> float | None:
        """Seconds that it may answer for records without another keep-alive; None: for ever."""


def core_nodes(cluster: ClusterMap) -> list[CoreNode]:
    """The nodes of a map as the core takes them."""
    return [
        (
            each.name,
            list(each.addresses),
            each.weight,
            each.boot,
            int(each.state),
            int(each.left_by),
        )
        for each in cluster.members
    ]


def tell(core: Core, cluster: ClusterMap, *, is_gap: bool = False) -> None:
    """Have the core apply a map."""
    replicas = cluster.settings.replicas
    core.apply_map(
        cluster.epoch,
        core_nodes(cluster),
        replicas=replicas.default,
        namespaces=list(replicas.namespaces),
        is_gap=is_gap,
    )
