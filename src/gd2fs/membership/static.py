"""StaticProvider: membership from a list that every node was given alike. It is one epoch for ever.

Peers that are up are asked for their lists before the node serves, others later: unequal lists
would place the same chunk in different homes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gd2fs import _core
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.membership.peers import Peer, format_peers, list_hash, parse_peers
from gd2fs.membership.provider import Core
from gd2fs.membership.replicas import ONE_COPY, Replicas
from gd2fs.membership.state import ClusterMap, Member, NodeState, Settings

if TYPE_CHECKING:
    from gd2fs.config import Access

PROBE_MS = 500  # for a peer to say which list it has
PROBES_AT_ONCE = 16
PROBE_AGAIN_S = 5.0  # peers that were not up are asked again after this long
OTHER_CLUSTER = "is of cluster `"  # how a node refuses those of another one
EPOCH = 1

log = logging.getLogger(__name__)


class StaticProvider:
    """This node's membership in a list. See ``Provider``.

    Args:
        cluster: The cluster's name.
        me: This node, one of ``peers``.
        peers: All nodes.
        replicas: Copies of what lies in each namespace.
        access: What is shown to the peers; None: nothing.
    """

    kind = "static"

    def __init__(
        self,
        *,
        cluster: str,
        me: Peer,
        peers: list[Peer],
        replicas: Replicas = ONE_COPY,
        access: Access | None = None,
    ) -> None:
        self.name = me.name
        self.is_over = threading.Event()
        self.fault = ""
        self._cluster = cluster
        self._me = me
        self._peers = peers
        self._replicas = replicas
        self._access = access.native() if access else {}
        self._refusals: set[str] = set()  # that were told
        self._hash = list_hash(peers, replicas)
        self._is_stopping = threading.Event()
        self._disagreement = ""
        self._unseen = [peer for peer in peers if peer != me]
        self._watch = threading.Thread(target=self._watch_peers, name="gd2fs-peers", daemon=True)

    def first_map(self) -> ClusterMap:
        """See ``Provider.first_map``. It is the only one."""
        members = (
            Member(peer.name, peer.addresses, peer.weight)
            for peer in sorted(self._peers, key=lambda peer: peer.name)
        )
        return ClusterMap(EPOCH, tuple(members), Settings(self._replicas))

    def join(self, core: Core, moves_left: Callable[[], int | None] = lambda: None) -> None:
        """Compare lists with every peer that is up. See ``Provider.join``."""
        self._ask_unseen()
        if self._disagreement:
            raise InvalidRequest(
                self._disagreement, hint="give every node the same `--cluster` and `--peers`"
            )
        if self._unseen:
            self._watch.start()

    def leave(self) -> None:
        """See ``Provider.leave``."""
        self._is_stopping.set()
        if self._watch.is_alive():
            self._watch.join(PROBE_AGAIN_S)

    def why_not_ready(self) -> str:
        """See ``Provider.why_not_ready``."""
        return self._disagreement

    def nodes(self) -> int:
        """See ``Provider.nodes``."""
        return len(self._peers)

    def state(self) -> NodeState:
        """See ``Provider.state``."""
        return NodeState.ACTIVE

    def lease_left_s(self) -> float | None:
        """See ``Provider.lease_left_s``."""
        return None

    def _watch_peers(self) -> None:
        while self._unseen and not self._disagreement:
            if self._is_stopping.wait(PROBE_AGAIN_S):
                return
            self._ask_unseen()
        if self._disagreement:
            log.error("%s", self._disagreement)

    def _ask_unseen(self) -> None:
        if not self._unseen:
            return
        with ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="gd2fs-probe") as probes:
            answers = list(probes.map(self._ask, self._unseen))
        self._disagreement = next((text for text in answers if text), "")
        self._unseen = [
            peer for peer, text in zip(self._unseen, answers, strict=True) if text is None
        ]

    def _ask(self, peer: Peer) -> str | None:
        """None: no answer yet. Empty: it has the same list. Else what differs, both named."""
        try:
            client = _core.Client(
                list(peer.addresses),
                self._cluster,
                io_threads=1,
                streams=1,
                timeout_ms=PROBE_MS,
                connect_ms=PROBE_MS,
                **self._access,
            )
        except GD2FSError as error:
            refusal = f"peer {peer} refuses {_at(self._me)}: {error}"
            if OTHER_CLUSTER in str(error):
                return refusal
            if isinstance(error, InvalidRequest) and refusal not in self._refusals:
                self._refusals.add(refusal)  # tokens may be about to be rotated
                log.warning("%s", refusal)
            return None
        _, hash_there, list_there = client.map()
        client.close()
        if hash_there == self._hash:
            return ""
        peers_there = parse_peers(",".join(list_there))
        own, other = format_peers(self._peers), format_peers(peers_there)
        if own == other:
            return (
                f"{_at(self._me)} and {_at(peer)} keep different numbers of replicas: "
                f"{self.name} has `--replicas {self._replicas}`"
            )
        return (
            f"{_at(self._me)} and {_at(peer)} have different lists of peers: "
            f"{self.name} has `{own}`, {peer.name} has `{other}`"
        )


def _at(peer: Peer) -> str:
    return peer.name if peer.name in peer.addresses else f"{peer.name} at {peer.addresses[0]}"
