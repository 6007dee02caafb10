"""Membership: who belongs to the cluster, from a list, from etcd or from Kubernetes.

A provider tells the core which nodes there are, one map after the other, and until when this node
may answer for the records of files. What it decides are pure functions of ``rules`` and ``state``.
"""

from gd2fs.membership.peers import (
    Peer,
    check_node_name,
    find_self,
    format_peers,
    host_of,
    list_hash,
    parse_address,
    parse_peers,
)
from gd2fs.membership.replicas import ONE_COPY, Replicas, parse_replicas

__all__ = [
    "ONE_COPY",
    "Peer",
    "Replicas",
    "check_node_name",
    "find_self",
    "format_peers",
    "host_of",
    "list_hash",
    "parse_address",
    "parse_peers",
    "parse_replicas",
]
