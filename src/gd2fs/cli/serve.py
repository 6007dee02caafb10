"""Serve: run one node until it is told to end."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from gd2fs.cli.etcd import EtcdCaOption, EtcdCertOption, EtcdKeyOption, EtcdOption, EtcdUserOption
from gd2fs.cli.kubernetes import (
    KubernetesAccountOption,
    KubernetesApiOption,
    KubernetesOption,
)
from gd2fs.cli.log import JSON, error_as_json, log_to_stderr
from gd2fs.cli.signals import Signals
from gd2fs.cli.target import ClusterOption
from gd2fs.config import (
    LEASE_S_DEFAULT,
    RAMP_S_DEFAULT,
    NodeConfig,
    etcd_settings,
    kubernetes_settings,
    tls_of,
)
from gd2fs.config_file import read_config
from gd2fs.errors import GD2FSError, Unavailable
from gd2fs.membership.state import WEIGHT_DEFAULT
from gd2fs.node import Node
from gd2fs.nvme import nvme_facts
from gd2fs.rules import RuleSet
from gd2fs.ucx import spare_process

RuleOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Ask the site's own rule of this name (entry point) of writes"
    ),
]
RULES = "gd2fs.rules"  # in the context: those of the file
NOT_THE_NODES = {"config_file", "log"}  # options of the command
LOOK_S = 0.2  # between two looks whether it still has a place in the cluster

ZeroCopyOption = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="Send from the arena by reference: auto (huge pages), on (small ones too), off",
    ),
]
ShmOption = Annotated[
    str,
    typer.Option(metavar="shared|off", help="May this user's processes map its memory to read?"),
]
NumaOption = Annotated[
    str,
    typer.Option(metavar="auto|off", help="Spread memory and threads over NUMA nodes?"),
]
RdmaOption = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="Take part in one-sided transfers: auto (where there are cards), on, off",
    ),
]
UcxOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The libucp for them (or GD2FS_UCX; else what is found)"),
]
UcxTlsOption = Annotated[
    str | None,
    typer.Option(metavar="LIST", help="Which of UCX's transports, as UCX_TLS (or GD2FS_UCX_TLS)"),
]
CongestionOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How sockets share the network (or GD2FS_CONGESTION)"),
]
SocketBufferOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of a socket, each way (or GD2FS_SOCKET_BUFFER)"),
]
ArenaOption = Annotated[
    str,
    typer.Option(
        metavar="KIND", help="What its memory is: auto, hugetlb, memfd, thp, plain or file:PATH"
    ),
]
AdminOption = Annotated[
    str | None,
    typer.Option(metavar="ADDR:PORT", help="Serve /healthz, /readyz and /metrics there"),
]
PeersOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="All nodes, this one too, alike on every node: "
        r"\[NAME=]ADDR:PORT\[+ADDR:PORT],… (without it or a store of maps this node is alone)",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which node this is (with --peers: the one at its address)"),
]
ReplicasOption = Annotated[
    str | None,
    typer.Option(metavar="N,NAMESPACE=N,…", help="Nodes that keep a copy of each thing: 2,kv=3"),
]
LeaseOption = Annotated[
    int,
    typer.Option(
        metavar="SECONDS", help="etcd, Kubernetes: silent for so long it is taken for gone"
    ),
]
RampOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="etcd, Kubernetes: it has its whole share then; 0: at once"
    ),
]
WeightOption = Annotated[
    int, typer.Option(metavar="N", help="etcd, Kubernetes: its share, in relation to other nodes")
]
MoveRateOption = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Bytes a second that it moves to other nodes at most"),
]
StateDirOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep its name, the number of its start and (with --peers) records of files there",
    ),
]


NvmeOption = Annotated[
    str | None,
    typer.Option(
        metavar=r"FOLDER\[:SIZE],…", help="Keep there what memory has no room for (else it goes)"
    ),
]
NvmeRateOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Bytes a second that it writes there at most; 0: no limit"),
]
NvmeWriteOption = Annotated[
    str, typer.Option(metavar="back|through", help="Write ahead of eviction, or at once")
]
NvmeKeepOption = Annotated[
    str,
    typer.Option(
        metavar="inclusive|exclusive", help="Does the copy there stay when it is read again?"
    ),
]


TokenFileOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="The cluster's token, while it is rotated two (or GD2FS_TOKEN_FILE, GD2FS_TOKEN)",
    ),
]
TenantsOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="TOML: tokens of tenants, and what each may do where"),
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", help="Serve other machines without a token"),
]
LogOption = Annotated[
    str, typer.Option(metavar="text|json", help="How stderr tells: lines, or a JSON object each")
]
TlsCertOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Own certificate: turns TLS on (or GD2FS_TLS_CERT)"),
]
TlsKeyOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="The key of it (or GD2FS_TLS_KEY)")
]
TlsCaOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Who signs other nodes' certificates (or GD2FS_TLS_CA)"),
]
TlsNameOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="One more name they may have (or GD2FS_TLS_NAME)"),
]
TlsClientsOption = Annotated[
    str,
    typer.Option(metavar="any|required", help="Do clients need a certificate by `--tls-ca`?"),
]


def take_file(context: typer.Context, path: Path | None) -> Path | None:
    """What the file says stands in for what the command line does not say."""
    if path is not None:
        file = read_config(path, options_of(serve))
        context.default_map = {**(context.default_map or {}), **file.options}
        context.meta[RULES] = file.rules
    return path


ConfigFileOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=take_file,
        help="Read options and the rules of namespaces there; what is given here wins",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("serve")(serve)


def serve(
    context: typer.Context,
    config_file: ConfigFileOption = None,
    cluster: ClusterOption = None,
    listen: Annotated[
        str,
        typer.Option(metavar="tcp://ADDR:PORT,…", help="Where to serve; port 0 takes a free one"),
    ] = "tcp://127.0.0.1:7527",
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of cache: 8GiB, 512M, 64MB, …")
    ] = "1GiB",
    peers: PeersOption = None,
    etcd: EtcdOption = None,
    kubernetes: KubernetesOption = None,
    name: NameOption = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://ADDR:PORT,…", help="Where others reach this node (else where it listens)"
        ),
    ] = None,
    arena: ArenaOption = "auto",
    admin: AdminOption = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that move bytes")] = 2,
    zero_copy: ZeroCopyOption = "auto",
    shm: ShmOption = "shared",
    numa: NumaOption = "auto",
    rdma: RdmaOption = "auto",
    ucx: UcxOption = None,
    ucx_tls: UcxTlsOption = None,
    congestion: CongestionOption = None,
    socket_buffer: SocketBufferOption = None,
    move_rate: MoveRateOption = "1GiB",
    replicas: ReplicasOption = None,
    lease: LeaseOption = LEASE_S_DEFAULT,
    ramp: RampOption = RAMP_S_DEFAULT,
    weight: WeightOption = WEIGHT_DEFAULT,
    state_dir: StateDirOption = None,
    nvme: NvmeOption = None,
    nvme_rate: NvmeRateOption = None,
    nvme_write: NvmeWriteOption = "back",
    nvme_keep: NvmeKeepOption = "inclusive",
    rule: RuleOption = None,
    token_file: TokenFileOption = None,
    tenants: TenantsOption = None,
    insecure: InsecureOption = False,
    log: LogOption = "text",
    etcd_user: EtcdUserOption = None,
    etcd_ca: EtcdCaOption = None,
    etcd_cert: EtcdCertOption = None,
    etcd_key: EtcdKeyOption = None,
    kubernetes_api: KubernetesApiOption = None,
    kubernetes_account: KubernetesAccountOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: TlsCaOption = None,
    tls_name: TlsNameOption = None,
    tls_clients: TlsClientsOption = "any",
) -> None:
    """Serve a share of the cluster's cache from this machine's memory.

    Prints one line that starts with `ready`, and ends with status 0 on SIGTERM, or when it was
    asked to leave (`gd2fs drain`) and has handed over what it had.
    """
    words = dict(locals())
    log_to_stderr(logging.INFO, log)
    rules = words.pop("context").meta.get(RULES)
    with error_as_json() if log == JSON else nullcontext():
        _run(node_config(words, rules))


def node_config(words: dict[str, Any], rules: RuleSet | None) -> NodeConfig:
    """What a node is told by its options, the file itself left out. Raises InvalidRequest."""
    words = {name: value for name, value in words.items() if name not in NOT_THE_NODES}
    return NodeConfig.parse(**_joined(words), rules=rules)


def _joined(words: dict[str, Any]) -> dict[str, Any]:
    """The options as ``NodeConfig.parse`` takes them: what is about one store is one thing.

    What is said here wins over a store that the environment names.
    """
    etcd, kubernetes = words.pop("etcd"), words.pop("kubernetes")
    access = {key: words.pop(f"etcd_{key}") for key in ("user", "ca", "cert", "key")}
    pod = {key: words.pop(f"kubernetes_{key}") for key in ("api", "account")}
    tls = {key: words.pop(f"tls_{key}") for key in ("cert", "key", "ca", "name", "clients")}
    is_said = words["peers"] is not None or etcd is not None or kubernetes is not None
    words["lease_s"], words["ramp_s"] = words.pop("lease"), words.pop("ramp")
    return words | {
        "etcd": etcd_settings(etcd or ("" if is_said else None), **access),
        "kubernetes": kubernetes_settings(kubernetes or ("" if is_said else None), **pod),
        "tls": tls_of(**tls),
    }


def options_of(command: Callable[..., object]) -> dict[str, type]:
    """What may stand in a configuration file, with its kind: every option but the file itself."""
    kinds = {}
    for name, hint in get_type_hints(command).items():
        of = [each for each in get_args(hint) or (hint,) if each in (str, int, float, bool)]
        if of and name != "return":
            kinds[name] = of[0]
    return kinds


def _run(config: NodeConfig) -> None:
    # This process is ours and has no other threads yet; in an engine's nobody but the engine sets
    # its environment.
    spare_process(os.environ)
    signals = Signals()
    is_ended = signals.is_ended
    try:
        started = Node.start(config, is_traceable=False, is_ended=is_ended)
    except GD2FSError:
        if is_ended.is_set():
            return
        raise
    with started as node:
        signals.on_reload = node.reload
        print(_ready_line(node), flush=True)
        while not is_ended.wait(LOOK_S) and not node.provider.is_over.is_set():
            pass
        if node.provider.fault:
            raise Unavailable(node.provider.fault, hint="")
        if node.provider.is_over.is_set():
            print(f"left name={shlex.quote(node.name)}: all is handed over", flush=True)


def _ready_line(node: Node) -> str:
    facts = {
        "name": node.name,
        "cluster": node.config.cluster,
        "listen": ",".join(f"tcp://{address}" for address in node.addresses),
        "memory": node.config.memory_bytes,
        "rung": node.rung,
        "shm": "shared" if node.is_sealed else "off",
        "nodes": node.nodes,
        "rdma": "on" if not node.rdma_lack else None,
        "tls": "on" if node.config.tls.is_on else None,
        "admin": node.admin_url,
        **nvme_facts(node.counts()),
    } | node.recovered
    return "ready " + " ".join(
        f"{key}={shlex.quote(str(value))}" for key, value in facts.items() if value is not None
    )
