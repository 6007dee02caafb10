"""RDMA: what a side has to do with one-sided transfers, of a client and of a node alike."""

from __future__ import annotations

from collections.abc import Mapping

from gd2fs.errors import InvalidRequest
from gd2fs.ucx import library_of

RDMA_USES = ("auto", "on", "off")


def check_rdma(use: str) -> str:
    """Return ``use`` when it is one of ``RDMA_USES``. Raises InvalidRequest."""
    if use not in RDMA_USES:
        raise InvalidRequest(f"`--rdma` is `{use}`", hint=f"one of {', '.join(RDMA_USES)}")
    return use


def ucx_of(given: str | None, environment: Mapping[str, str]) -> str:
    """Path of a libucp: ``given``, else ``GD2FS_UCX``; empty: what is found."""
    return environment.get("GD2FS_UCX", "") if given is None else given


def ucx_tls_of(given: str | None, environment: Mapping[str, str]) -> str:
    """Transports as ``UCX_TLS`` has them: ``given``, else ``GD2FS_UCX_TLS``; empty: the core's."""
    return environment.get("GD2FS_UCX_TLS", "") if given is None else given


def native_rdma(use: str, ucx: str, ucx_tls: str) -> dict[str, str]:
    """As the native client and server take it."""
    if use == "off":
        return {"use": use}
    words = {"use": use, "library": library_of(ucx), "transports": ucx_tls}
    return {key: word for key, word in words.items() if word}
