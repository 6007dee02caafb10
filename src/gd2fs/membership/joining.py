"""Joining: by which way a node's configuration makes it a member, and as whom."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gd2fs.errors import InvalidRequest
from gd2fs.membership.etcd import EtcdProvider
from gd2fs.membership.identity import Identity, StateDirectory, boot_now
from gd2fs.membership.kubernetes import KubernetesProvider
from gd2fs.membership.leased import LeasedProvider, Place
from gd2fs.membership.peers import LIST_HASH_BYTES, Peer, find_self, host_of, list_hash
from gd2fs.membership.provider import Provider
from gd2fs.membership.replicas import ONE_COPY
from gd2fs.membership.static import StaticProvider

if TYPE_CHECKING:
    from gd2fs.config import NodeConfig

WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Membership:
    """How a node belongs to its cluster.

    Attributes:
        provider: Where it learns which nodes there are.
        identity: Who it is.
        own_hash: Of what nodes of one cluster have in common.
    """

    provider: Provider
    identity: Identity
    own_hash: bytes


def membership_of(
    config: NodeConfig,
    listen: list[str],
    directory: StateDirectory | None,
    is_ended: threading.Event | None,
) -> Membership:
    """What ``config`` asks for.

    Args:
        config: Of the node.
        listen: ``ADDR:PORT`` where it listens, with real ports.
        directory: Where it keeps its name; None: nowhere.
        is_ended: Set from outside, it ends a wait for the name.

    Raises:
        InvalidRequest: The node is none of its list, or nobody can reach it.
    """
    if config.etcd is None and config.kubernetes is None:
        return _listed(config, listen, directory)
    return _leased(config, listen, directory, is_ended)


def _listed(config: NodeConfig, listen: list[str], directory: StateDirectory | None) -> Membership:
    peers = list(config.peers) or [_alone(config, listen)]
    me = find_self(peers, name=config.name, addresses=config.advertise or listen)
    replicas = config.replicas or ONE_COPY
    provider = StaticProvider(
        cluster=config.cluster, me=me, peers=peers, replicas=replicas, access=config.access
    )
    return Membership(provider, _identity(me.name, directory), list_hash(peers, replicas))


def _leased(
    config: NodeConfig,
    listen: list[str],
    directory: StateDirectory | None,
    is_ended: threading.Event | None,
) -> Membership:
    identity = _identity(config.name, directory)
    place = Place(
        config.cluster,
        identity.name,
        _reachable(config, listen),
        identity.boot,
        lease_s=config.lease_s,
        ramp_s=config.ramp_s,
        weight=config.weight,
        replicas=config.replicas,
        away_ms=None if identity.away_s is None else int(identity.away_s * 1000),
    )
    if config.etcd:
        text = f"etcd\n{config.cluster}"
        provider: LeasedProvider = EtcdProvider(config.etcd, place, is_ended)
    else:
        assert config.kubernetes is not None
        text = f"kubernetes\n{config.kubernetes.namespace}\n{config.cluster}"
        provider = KubernetesProvider(config.kubernetes, place, is_ended)
    own_hash = hashlib.blake2b(text.encode(), digest_size=LIST_HASH_BYTES).digest()
    return Membership(provider, identity, own_hash)


def _identity(name: str | None, directory: StateDirectory | None) -> Identity:
    if directory:
        return directory.start(name)
    assert name is not None, "checked with the configuration"
    return Identity(name, boot_now(time.time_ns() // 1000))


def _alone(config: NodeConfig, listen: list[str]) -> Peer:
    addresses = _reachable(config, listen)
    return Peer(config.name or addresses[0], addresses)


def _reachable(config: NodeConfig, listen: list[str]) -> tuple[str, ...]:
    """Where others reach this node."""
    addresses = config.advertise or tuple(listen)
    wildcard = next((address for address in addresses if host_of(address) in WILDCARDS), None)
    if wildcard:
        raise InvalidRequest(
            f"nobody can reach this node at {wildcard}",
            hint="say where with `--advertise ADDR:PORT`, or list it in `--peers`",
        )
    return tuple(addresses)
