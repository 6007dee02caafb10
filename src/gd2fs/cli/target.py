"""Target: which cluster and which path a command means, and the client that reaches it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

import typer

from gd2fs import Client, _core
from gd2fs.address import SCHEME, parse_file_address
from gd2fs.errors import InvalidRequest

CpOption = Annotated[
    str | None,
    typer.Option(
        "--cp",
        metavar="gd2fs://ADDR:PORT,…",
        help="Nodes to ask, any live one serves (or GD2FS_CPADDR)",
        show_default=False,
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="The cluster's name (or GD2FS_CLUSTER)",
        show_default=False,
    ),
]
TransportOption = Annotated[
    str | None,
    typer.Option(
        "--transport",
        metavar="auto|shm|rdma|unix|tcp",
        help="How nodes are talked to (or GD2FS_TRANSPORT)",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON")]


@dataclass(frozen=True, slots=True)
class Target:
    """A path of one cluster; what is None is decided by the settings."""

    path: str
    cp: str | None
    cluster: str | None
    transport: str | None = None

    def open(self) -> Client:
        """Connect. The caller closes the client."""
        return Client(self.cp, cluster=self.cluster, transport=self.transport)

    def check_file(self) -> Target:
        """Return this target when its path can name a file. Raises InvalidRequest."""
        fault = _core.path_fault(os.fsencode(self.path))
        if fault:
            raise InvalidRequest(f"`{self.path}` {fault}", hint="write `/namespace/name`")
        return self


def parse_target(
    text: str, *, cp: str | None, cluster: str | None, transport: str | None = None
) -> Target:
    """Read ``/namespace/path`` or ``gd2fs://CP[,CP…]/namespace/path[?cluster=NAME]``.

    What a URI says wins over ``cp`` and ``cluster``.

    Raises:
        InvalidRequest: The URI has no nodes or no path, or a query that means nothing.
    """
    if not text.startswith(SCHEME):
        return Target(text, cp, cluster, transport)
    address = parse_file_address(text)
    return Target(address.path, ",".join(address.cp), address.cluster or cluster, transport)
