"""Testing: what tests of this package, and of what is built on it, start from."""

from gd2fs.testing.cluster import Cluster, NodeProcess
from gd2fs.testing.etcd import EtcdServer
from gd2fs.testing.memory_pages import MemoryPages
from gd2fs.testing.memory_store import MemoryStore
from gd2fs.testing.nodes import LocalNodes

__all__ = ["Cluster", "EtcdServer", "LocalNodes", "MemoryPages", "MemoryStore", "NodeProcess"]
