"""Serve: run one node until it is told to end."""

from __future__ import annotations

import logging
import shlex
import signal
import threading
from typing import Annotated

import typer

from gd2fs.cli.log import log_to_stderr
from gd2fs.cli.target import ClusterOption
from gd2fs.config import NodeConfig
from gd2fs.node import Node

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
CongestionOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="How sockets share the network (or GD2FS_CONGESTION)"),
]
SocketBufferOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of a socket, each way (or GD2FS_SOCKET_BUFFER)"),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("serve")(serve)


def serve(
    cluster: ClusterOption = None,
    listen: Annotated[
        str,
        typer.Option(metavar="tcp://ADDR:PORT,…", help="Where to serve; port 0 takes a free one"),
    ] = "tcp://127.0.0.1:7527",
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of cache: 8GiB, 512M, 64MB, …")
    ] = "1GiB",
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="All nodes, this one too, alike on every node: "
            r"\[NAME=]ADDR:PORT\[+ADDR:PORT],… (without it this node is alone)",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which peer this is (else the one at its address)"),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://ADDR:PORT,…", help="Where others reach this node (else where it listens)"
        ),
    ] = None,
    arena: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="What its memory is: auto, hugetlb, memfd, thp, plain or file:PATH"
        ),
    ] = "auto",
    admin: Annotated[
        str | None,
        typer.Option(metavar="ADDR:PORT", help="Serve /healthz, /readyz and /metrics there"),
    ] = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that move bytes")] = 2,
    zero_copy: ZeroCopyOption = "auto",
    shm: ShmOption = "shared",
    congestion: CongestionOption = None,
    socket_buffer: SocketBufferOption = None,
) -> None:
    """Serve a share of the cluster's cache from this machine's memory.

    Prints one line that starts with `ready`, and ends with status 0 on SIGTERM.
    """
    log_to_stderr(logging.INFO)
    config = NodeConfig.parse(
        cluster=cluster,
        listen=listen,
        memory=memory,
        peers=peers,
        name=name,
        advertise=advertise,
        arena=arena,
        admin=admin,
        threads=threads,
        zero_copy=zero_copy,
        shm=shm,
        congestion=congestion,
        socket_buffer=socket_buffer,
    )
    is_ended = _end_on_signals()
    with Node.start(config, is_traceable=False) as node:
        print(_ready_line(node), flush=True)
        is_ended.wait()


def _end_on_signals() -> threading.Event:
    is_ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_ended.set())
    return is_ended


def _ready_line(node: Node) -> str:
    facts = {
        "name": node.name,
        "cluster": node.config.cluster,
        "listen": ",".join(f"tcp://{address}" for address in node.addresses),
        "memory": node.config.memory_bytes,
        "rung": node.rung,
        "shm": "shared" if node.is_sealed else "off",
        "nodes": len(node.peers),
        "admin": f"http://{node.admin_address}" if node.admin_address else None,
    }
    return "ready " + " ".join(
        f"{key}={shlex.quote(str(value))}" for key, value in facts.items() if value is not None
    )
