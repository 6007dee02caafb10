"""Stores: where a membership is kept, as the command line and the environment name it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gd2fs.errors import InvalidRequest
from gd2fs.membership import parse_address
from gd2fs.membership.etcd_link import EtcdSettings, parse_endpoints
from gd2fs.membership.kubernetes_link import ACCOUNT, KubernetesSettings
from gd2fs.membership.kubernetes_names import PLAIN


def etcd_settings(
    etcd: str | None,
    *,
    user: str | None = None,
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> EtcdSettings | None:
    """How etcd is reached, ``GD2FS_ETCD`` by default; None when it is not named.

    The password is ``GD2FS_ETCD_PASSWORD``: what stands on a command line is seen by everybody.

    Raises:
        InvalidRequest: An endpoint is none, or a file is not there.
    """
    endpoints = environment.get("GD2FS_ETCD", "") if etcd is None else etcd
    if not endpoints:
        return None
    for path in filter(None, (ca, cert, key)):
        if not os.access(path, os.R_OK):
            raise InvalidRequest(f"cannot read {path}", hint="name a PEM file that is there")
    return EtcdSettings(
        parse_endpoints(endpoints),
        user=user or "",
        password=environment.get("GD2FS_ETCD_PASSWORD", "") if user else "",
        ca=ca or "",
        cert=cert or "",
        key=key or "",
    )


def kubernetes_settings(
    namespace: str | None,
    *,
    api: str | None = None,
    account: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> KubernetesSettings | None:
    """How the API of Kubernetes is reached; ``GD2FS_KUBERNETES`` is the namespace by default. None
    when there is none. The API is where a pod is told that it is.

    Raises:
        InvalidRequest: It is no name of a namespace, or the API is nowhere.
    """
    name = environment.get("GD2FS_KUBERNETES", "") if namespace is None else namespace
    if not name:
        return None
    if not PLAIN.fullmatch(name):
        raise InvalidRequest(
            f"`{name}` is no namespace of Kubernetes", hint="lower-case letters, digits and `-`"
        )
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not api and not host:
        raise InvalidRequest(
            "this is no pod of Kubernetes: `KUBERNETES_SERVICE_HOST` is not set",
            hint="say where the API is with `--kubernetes-api https://HOST:PORT`",
        )
    where = api or f"https://{f'[{host}]' if ':' in host else host}:{port}"
    scheme, separator, address = where.rstrip("/").partition("://")
    if scheme not in ("http", "https") or not separator:
        raise InvalidRequest(f"`{where}` is no URL", hint="write `https://HOST:PORT`")
    parse_address(address)
    return KubernetesSettings(name, f"{scheme}://{address}", account or ACCOUNT)
