"""Etcd: the options of commands that ask it."""

from __future__ import annotations

from typing import Annotated

import typer

EtcdOption = Annotated[
    str | None,
    typer.Option(
        "--etcd",
        metavar="http://HOST:2379,…",
        help="Membership is kept in this etcd (or GD2FS_ETCD)",
        show_default=False,
    ),
]
EtcdUserOption = Annotated[
    str | None,
    typer.Option(
        "--etcd-user", metavar="NAME", help="As whom; the password is GD2FS_ETCD_PASSWORD"
    ),
]
EtcdCaOption = Annotated[
    str | None, typer.Option("--etcd-ca", metavar="FILE", help="Who vouches for its certificate")
]
EtcdCertOption = Annotated[
    str | None, typer.Option("--etcd-cert", metavar="FILE", help="The certificate to show it")
]
EtcdKeyOption = Annotated[
    str | None, typer.Option("--etcd-key", metavar="FILE", help="The key of that certificate")
]
