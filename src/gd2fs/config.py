"""Config: settings, checked once at the start. The only place that reads the environment."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gd2fs.address import parse_cp, parse_dp
from gd2fs.errors import InvalidRequest

IO_THREADS_MAX = 64
STREAMS_MAX = 64
TIMEOUT_S_MAX = 86_400.0


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How a client reaches its cluster.

    Attributes:
        cp: Nodes to ask first, ``HOST:PORT``; any live one serves.
        cluster: The cluster's name; a node of another one refuses the client.
        dp: Local addresses to bind streams to; empty is the system's choice.
        io_threads: Threads that move bytes, 1 to 64.
        streams: Connections to each node, 1 to 64.
        timeout_s: Deadline of a call, over 0 to 86,400.
        verify: Check every block against its checksum in the caller's memory.
    """

    cp: tuple[str, ...]
    cluster: str
    dp: tuple[str, ...] = ()
    io_threads: int = 2
    streams: int = 2
    timeout_s: float = 5.0
    verify: bool = True

    def __post_init__(self) -> None:
        if not self.cluster:
            raise InvalidRequest(
                "no cluster is named", hint="pass `cluster`, or set `GD2FS_CLUSTER`"
            )
        _check_count("io_threads", self.io_threads, IO_THREADS_MAX)
        _check_count("streams", self.streams, STREAMS_MAX)
        check_timeout(self.timeout_s)


def client_config(
    cp: str | Sequence[str] | None = None,
    *,
    cluster: str | None = None,
    dp: str | Sequence[str] | None = None,
    io_threads: int | None = None,
    streams: int | None = None,
    timeout_s: float | None = None,
    verify: bool = True,
    environment: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """Fill what is not given from ``GD2FS_CPADDR``, ``GD2FS_CLUSTER``, ``GD2FS_DPADDR``,
    ``GD2FS_IOTHREADS``, ``GD2FS_STREAMS`` and ``GD2FS_TIMEOUT_S``.

    Raises:
        InvalidRequest: Something is missing, or is not what it should be.
    """
    if cp is None:
        cp = environment.get("GD2FS_CPADDR", "")
    return ClientConfig(
        cp=parse_cp(cp),
        cluster=environment.get("GD2FS_CLUSTER", "") if cluster is None else cluster,
        dp=parse_dp(environment.get("GD2FS_DPADDR", "") if dp is None else dp),
        io_threads=int(_number(environment, "GD2FS_IOTHREADS", 2)) if io_threads is None
        else io_threads,
        streams=int(_number(environment, "GD2FS_STREAMS", 2)) if streams is None else streams,
        timeout_s=_number(environment, "GD2FS_TIMEOUT_S", 5.0) if timeout_s is None else timeout_s,
        verify=verify,
    )


def check_timeout(timeout_s: float) -> float:
    """Return ``timeout_s`` when it is over 0 and at most a day. Raises InvalidRequest."""
    if not (math.isfinite(timeout_s) and 0 < timeout_s <= TIMEOUT_S_MAX):
        raise InvalidRequest(
            f"a timeout of {timeout_s} s is not over 0 and at most {TIMEOUT_S_MAX:.0f}",
            hint="every call needs a deadline",
        )
    return timeout_s


def _check_count(name: str, count: int, count_max: int) -> None:
    if not 1 <= count <= count_max:
        raise InvalidRequest(f"`{name}` is {count}", hint=f"give 1 to {count_max}")


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        return float(text)
    except ValueError as cause:
        raise InvalidRequest(f"`{name}` is `{text}`, not a number", hint="fix or unset it") from cause
