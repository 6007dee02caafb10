"""Config: settings, checked once at the start. Nothing outside this package reads the environment.

``client`` and ``node`` have what each is told; ``access``, ``sockets`` and ``cluster`` what both
are, ``stores`` where a membership is kept.
"""

from __future__ import annotations

from gd2fs.config.access import Access, tls_of
from gd2fs.config.client import (
    TIMEOUT_S_MAX,
    ClientConfig,
    check_memthreads,
    check_timeout,
    client_config,
)
from gd2fs.config.cluster import cluster_name
from gd2fs.config.node import (
    LEASE_S_DEFAULT,
    MOVE_RATE_MIN,
    RAMP_S_DEFAULT,
    NodeConfig,
    is_loopback,
    parse_listen,
)
from gd2fs.config.sockets import SOCKET_BUFFER_BYTES
from gd2fs.config.stores import etcd_settings, kubernetes_settings

__all__ = [
    "LEASE_S_DEFAULT",
    "MOVE_RATE_MIN",
    "RAMP_S_DEFAULT",
    "SOCKET_BUFFER_BYTES",
    "TIMEOUT_S_MAX",
    "Access",
    "ClientConfig",
    "NodeConfig",
    "check_memthreads",
    "check_timeout",
    "client_config",
    "cluster_name",
    "etcd_settings",
    "is_loopback",
    "kubernetes_settings",
    "parse_listen",
    "tls_of",
]
