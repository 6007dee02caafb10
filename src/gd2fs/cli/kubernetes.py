"""Kubernetes: the options of commands that ask its API."""

from __future__ import annotations

from typing import Annotated

import typer

KubernetesOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        metavar="NAMESPACE",
        help="Membership is kept in objects of this namespace (or GD2FS_KUBERNETES)",
        show_default=False,
    ),
]
KubernetesApiOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes-api", metavar="https://HOST:PORT", help="Its API, where this is no pod"
    ),
]
KubernetesAccountOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes-account",
        metavar="FOLDER",
        help="With the `token` and `ca.crt` of a service account (else where pods have them)",
    ),
]
