"""NodeKill: a store of three nodes with two copies of everything, one of which is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gd2fs import Client
from gd2fs.bench.instances import CLUSTER, Instance
from gd2fs.bench.kill import NodeKill, middle_of, play_and_break
from gd2fs.bench.llama_asker import LlamaAsker
from gd2fs.bench.load import Played
from gd2fs.bench.workload import Turn, Workload
from gd2fs.testing.cluster import Cluster
from gd2fs.testing.etcd import EtcdServer, find_etcd

NODES = 3
REPLICAS = 2
LEASE_S = 2
NODE_MIB_MIN = 32


def check_replicated_store() -> None:
    """Raises InvalidRequest where this machine lacks what such a store needs."""
    from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings

    find_etcd()
    EtcdLink(EtcdSettings(("http://127.0.0.1:1",)), 1.0).close()


@contextmanager
def replicated_store(directory: Path, *, memory_mib: int) -> Iterator[Cluster]:
    """Run etcd and the nodes; together they have room for ``memory_mib`` MiB, twice."""
    share_mib = max(NODE_MIB_MIN, -(-REPLICAS * memory_mib // NODES))
    options = ["--replicas", str(REPLICAS), "--lease", str(LEASE_S), "--ramp", "0"]
    with (
        EtcdServer(str(directory)) as etcd,
        Cluster(
            NODES,
            f"{share_mib}MiB",
            str(directory),
            name=CLUSTER,
            options=options,
            etcd=etcd.endpoint,
        ) as nodes,
    ):
        yield nodes


def options_of(nodes: Cluster) -> list[str]:
    """What makes an engine use that store."""
    return ["--cp", ",".join(each.address for each in nodes.members), "--cluster", CLUSTER]


async def play_and_kill_node(
    turns: Sequence[Turn],
    workload: Workload,
    instances: Sequence[Instance],
    nodes: Cluster,
    asker: LlamaAsker,
    report: Callable[[Played], None],
) -> tuple[NodeKill, list[Played]]:
    """Play one conversation; after half of its turns the fullest node gets SIGKILL."""
    killed = ""

    def end_node(_: int) -> int:
        nonlocal killed
        killed = _fullest(nodes)
        node = next(each for each in nodes.members if each.name == killed)
        assert node.child is not None, "all run until now"
        pid = node.child.pid
        node.kill()
        return pid

    everyone = range(len(instances))
    pid, played = await play_and_break(
        turns, workload, instances, everyone, asker, report, end_node
    )
    after = middle_of(turns) + 1
    lost = sum(each.history_recomputed for each in played[after:])
    return NodeKill(killed, pid, "SIGKILL", after, NODES, REPLICAS, lost), played


def _fullest(nodes: Cluster) -> str:
    with Client(nodes.cp, cluster=CLUSTER) as client:
        told = client.ping()
    return max(told, key=lambda node: node.arena_bytes - node.arena_free_bytes).name
