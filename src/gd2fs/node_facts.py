"""Node facts: what a node says of itself and its machine, for whoever compares nodes.

It travels as JSON in answer to ``{"do": "facts"}``, the way that questions about settings go.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gd2fs
from gd2fs.doctor.links import links_for
from gd2fs.doctor.machine import Machine
from gd2fs.membership import host_of


def node_facts(
    *,
    list_hash: bytes,
    addresses: Iterable[str],
    counts: Callable[[], Mapping[str, int]],
    now_ns: Callable[[], int] = time.time_ns,
) -> dict[str, Any]:
    """The facts now.

    Args:
        list_hash: Of what its cluster has in common.
        addresses: ``ADDR:PORT`` where others reach it.
        counts: Of the native server.
        now_ns: Its clock, Unix time in nanoseconds.

    Returns:
        ``version``, ``python`` and ``kernel``; ``list``: the hash in hexadecimal digits;
        ``epoch`` of its map; ``links``: name and MTU of the interfaces that serve it; ``now_us``:
        its clock, read last.
    """
    hosts = [host_of(each) for each in addresses]
    return {
        "version": gd2fs.__version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "list": list_hash.hex(),
        "epoch": counts()["epoch"],
        "links": [[each.name, each.mtu] for each in _outside(hosts)],
        "now_us": now_ns() // 1000,
    }


def _outside(hosts: list[str]) -> list[Any]:
    if hosts and all(
        host == "localhost" or host.startswith("127.") or host == "::1" for host in hosts
    ):
        return []
    return links_for(Machine(), hosts)
