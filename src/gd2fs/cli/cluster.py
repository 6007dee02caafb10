"""Cluster: which nodes there are, how one leaves, and how many copies of things they keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer
from rich.table import Table

from gd2fs import Client, NodeStatus
from gd2fs.answers import ClusterStatus, MapNode
from gd2fs.cli.etcd import EtcdCaOption, EtcdCertOption, EtcdKeyOption, EtcdOption, EtcdUserOption
from gd2fs.cli.kubernetes import (
    KubernetesAccountOption,
    KubernetesApiOption,
    KubernetesOption,
)
from gd2fs.cli.output import count_of, print_json, print_note, printable, whole_lines
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.config import cluster_name, etcd_settings, kubernetes_settings
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.membership.etcd_keys import EtcdKeys
from gd2fs.membership.etcd_link import EtcdLink, EtcdSettings
from gd2fs.membership.kubernetes_keys import KubernetesKeys
from gd2fs.membership.kubernetes_leases import KubernetesLeases
from gd2fs.membership.kubernetes_link import KubernetesLink, KubernetesSettings
from gd2fs.membership.replicas import check_copies, check_namespace
from gd2fs.membership.state import SETTINGS
from gd2fs.operating import begin_drain, check_heirs, is_listed

STORE_TIMEOUT_S = 3.0
POLL_S = 0.2
DRAIN_S_DEFAULT = 3600.0
TRIES_MAX = 8  # to change the settings while others do


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    help_text = "Which nodes there are, and how many copies they keep."
    group = typer.Typer(no_args_is_help=True, help=help_text)
    group.command("status")(status)
    group.command("replicas")(replicas)
    app.add_typer(group, name="cluster")
    app.command("drain")(drain)


# ---- status --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A node as the map has it, and as it says itself; ``lease_left_s`` None: not known."""

    node: MapNode
    status: NodeStatus | None
    lease_left_s: int | None

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        is_up = self.status is not None and self.status.state != "gone"
        return {
            "name": self.node.name,
            "addresses": list(self.node.addresses),
            "state": self.node.state,
            "weight": self.node.weight,
            "boot": self.node.boot,
            "answers": is_up,
            "epoch": self.status.epoch if self.status and is_up else None,
            "lease_left_s": self.lease_left_s,
            "moves_left": self.status.moves_left if self.status and is_up else None,
            "moves_left_bytes": self.status.moves_left_bytes if self.status and is_up else None,
            "records_left": self.status.records_left if self.status and is_up else None,
        }


def status(
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
    etcd: EtcdOption = None,
    etcd_user: EtcdUserOption = None,
    etcd_ca: EtcdCaOption = None,
    etcd_cert: EtcdCertOption = None,
    etcd_key: EtcdKeyOption = None,
    kubernetes: KubernetesOption = None,
    kubernetes_api: KubernetesApiOption = None,
    kubernetes_account: KubernetesAccountOption = None,
) -> None:
    """Show the map: its epoch, who made it, every node's state, and what is yet to move.

    What a lease has to live is asked of etcd or Kubernetes, when that is named.
    """
    at_etcd = etcd_settings(etcd, user=etcd_user, ca=etcd_ca, cert=etcd_cert, key=etcd_key)
    pod = kubernetes_settings(kubernetes, api=kubernetes_api, account=kubernetes_account)
    with Client(cp, cluster=cluster, transport=transport) as client:
        told = {each.name: each for each in client.ping()}
        now = client.cluster()
        name = client.config.cluster
    leases = _leases(now.provider, at_etcd, pod, name)
    rows = [Row(node, told.get(node.name), leases.get(node.name)) for node in now.nodes]
    if as_json:
        print_json(
            {
                "cluster": name,
                "epoch": now.epoch,
                "provider": now.provider,
                "lease_s": now.lease_s,
                "replicas": now.replicas,
                "namespaces": now.namespaces,
                "nodes": [row.as_dict() for row in rows],
            }
        )
        return
    _print(name, now, rows)


def _leases(
    provider: str, etcd: EtcdSettings | None, pod: KubernetesSettings | None, cluster: str
) -> dict[str, int]:
    """What they have to live, in seconds, as far as that can be asked."""
    if provider == "etcd" and etcd:
        keys = EtcdKeys(EtcdLink(etcd, STORE_TIMEOUT_S), cluster)
        nodes = keys.snapshot().nodes
        return {name: keys.lease_ttl_s(key.lease) for name, key in nodes.items() if key.lease}
    if provider == "kubernetes" and pod:
        link = KubernetesLink(pod, STORE_TIMEOUT_S)
        leases = KubernetesLeases(link, cluster, lease_s=0)
        seen = [leases.read(name) for name in KubernetesKeys(link, cluster).snapshot().nodes]
        return {each.node: int(each.left_s) for each in seen if each}
    return {}


def _print(name: str, now: ClusterStatus, rows: Sequence[Row]) -> None:
    facts = [f"cluster {printable(name)}", f"epoch {now.epoch}", f"membership {now.provider}"]
    if now.lease_s:
        facts.append(f"leases {now.lease_s:g} s")
    exceptions = [f"{printable(each)}={n}" for each, n in now.namespaces.items()]
    facts.append(f"replicas {','.join([str(now.replicas), *exceptions])}")
    with whole_lines() as console:
        console.print(", ".join(facts), markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
        for title in ("node", "state", "weight", "boot", "lease", "epoch", "moves"):
            table.add_column(title, overflow="fold", justify="left" if title == "node" else "right")
        table.add_column("addresses", overflow="fold")
        for row in rows:
            table.add_row(*_cells(row))
        console.print(table)


def _cells(row: Row) -> Sequence[str]:
    facts = row.as_dict()
    state = row.node.state if facts["answers"] else f"{row.node.state}, silent"
    lease = facts["lease_left_s"]
    return (
        printable(row.node.name),
        row.node.state if row.node.state == "gone" else state,
        str(row.node.weight),
        str(row.node.boot or "-"),
        "-" if lease is None else f"{lease} s",
        "-" if facts["epoch"] is None else str(facts["epoch"]),
        "-" if not facts["answers"] else str(facts["moves_left"] + facts["records_left"]),
        ", ".join(row.node.addresses),
    )


# ---- drain ---------------------------------------------------------------------------------------


def drain(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its name")],
    as_json: JsonOption = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Stop watching after this; it goes on")
    ] = DRAIN_S_DEFAULT,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Have a node hand over all it has to the others, and leave; return when it has left."""
    start_s = time.monotonic()
    with Client(cp, cluster=cluster, transport=transport) as client:
        begin_drain(client, node)
        with count_of(f"draining {node}") as show:
            _watch(client, node, show, start_s + timeout)
    seconds = time.monotonic() - start_s
    if as_json:
        print_json({"node": node, "has_left": True, "seconds": round(seconds, 3)})
    else:
        print_note(f"{node} has left, after {seconds:.1f} s")


def _watch(client: Client, node: str, show: Callable[[int], None], end_s: float) -> None:
    while is_listed(now := client.cluster(), node):
        if not any(each.name == node and each.state == "draining" for each in now.nodes):
            check_heirs(now, node)  # the others may have gone meanwhile, or be going themselves
        if time.monotonic() >= end_s:
            raise Unavailable(
                f"{node} has not left yet", hint="it goes on; look with `gd2fs cluster status`"
            )
        for each in client.ping():
            if each.name == node and each.state == "draining":
                show(each.moves_left + each.records_left)
        time.sleep(POLL_S)


# ---- replicas ------------------------------------------------------------------------------------


def replicas(
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="Or `default`: all that are not named")
    ],
    copies: Annotated[int, typer.Argument(metavar="N", help="Nodes that keep a copy")],
    as_json: JsonOption = False,
    cluster: ClusterOption = None,
    etcd: EtcdOption = None,
    etcd_user: EtcdUserOption = None,
    etcd_ca: EtcdCaOption = None,
    etcd_cert: EtcdCertOption = None,
    etcd_key: EtcdKeyOption = None,
    kubernetes: KubernetesOption = None,
    kubernetes_api: KubernetesApiOption = None,
    kubernetes_account: KubernetesAccountOption = None,
) -> None:
    """Change how many nodes keep a copy of what lies in a namespace. Not with a static list."""
    check_copies(copies)
    if namespace != "default":
        check_namespace(namespace)
    at_etcd = etcd_settings(etcd, user=etcd_user, ca=etcd_ca, cert=etcd_cert, key=etcd_key)
    pod = kubernetes_settings(kubernetes, api=kubernetes_api, account=kubernetes_account)
    name = cluster_name(cluster)
    keys: EtcdKeys | KubernetesKeys
    if pod:
        keys = KubernetesKeys(KubernetesLink(pod, STORE_TIMEOUT_S), name)
    elif at_etcd:
        keys = EtcdKeys(EtcdLink(at_etcd, STORE_TIMEOUT_S), name)
    else:
        raise InvalidRequest(
            "no etcd is named, and no namespace of Kubernetes",
            hint="pass `--etcd http://HOST:2379` or `--kubernetes NAMESPACE`; "
            "nodes of a static list get `--replicas` anew",
        )
    now, revision = _change(keys, namespace, copies)
    if as_json:
        print_json({"epoch": revision, "replicas": now})
    else:
        print_note(f"replicas {now}, from epoch {revision} on")


def _change(keys: EtcdKeys | KubernetesKeys, namespace: str, copies: int) -> tuple[str, int]:
    for _ in range(TRIES_MAX):
        state = keys.snapshot()
        before = state.settings
        if before is None:
            raise InvalidRequest(
                f"no cluster has its nodes under `{keys.place}`",
                hint="start the first node with `--replicas`",
            )
        if namespace == "default":
            wanted = replace(before.replicas, default=copies)
        else:
            wanted = before.replicas.with_namespace(namespace, copies)
        revision = keys.put_settings(
            replace(before, replicas=wanted), expected_revision=state.revisions[SETTINGS]
        )
        if revision:
            return str(wanted), revision
    raise Unavailable("others change the settings all the time", hint="try again")
