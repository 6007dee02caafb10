"""Advice: the flags that a plan comes to, and what to think about before it is bought."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gd2fs.plan.fleet import LINK_SHARE, Plan
from gd2fs.sizes import format_bytes, format_size

WRITES_PER_DAY_MAX = 1.0  # of a drive for reading, as most are sold
GAIN_MIN = 2.0  # less, and a busy network makes loading the slower way
BATCH_PAGES = 128  # that SGLang loads at once
PAGE_TOKENS = 64


def serve_flags(plan: Plan) -> list[str]:
    """Of every node, beside its name, address and peers."""
    machines = plan.machines
    flags = ["--memory", f"{format_size(machines.memory_bytes)}", "--arena", "hugetlb"]
    if machines.replicas > 1:
        flags += ["--replicas", f"{machines.replicas}"]
    if machines.nvme_bytes:
        flags += ["--nvme", f"/mnt/nvme0/gd2fs:{format_size(machines.nvme_bytes)}"]
    if machines.nic_gbit > 25:
        flags += ["--threads", f"{min(math.ceil(machines.nic_gbit / 25), 16)}"]
    return flags


def sglang_settings(plan: Plan) -> dict[str, float]:
    """For its extra config: how long a batch may take at the least."""
    batch = BATCH_PAGES * PAGE_TOKENS * plan.geometry.token_bytes
    rate = LINK_SHARE * plan.machines.engine_nic_gbit * 1e9 / 8
    return {"load_timeout_s": max(2.0, math.ceil(4 * batch / rate))}


def cautions(plan: Plan) -> Iterator[str]:
    """What the numbers warn of."""
    machines, geometry = plan.machines, plan.geometry
    if geometry.remark:
        yield geometry.remark
    if plan.load_gain < 1:
        yield (
            f"loading is slower than computing: it takes {plan.break_even_gbit:.3g} Gbit/s for "
            "each engine; leave `never_slower` on, and look at a smaller cache type (`--dtype fp8`)"
        )
    elif plan.load_gain < GAIN_MIN:
        yield f"loading is only {plan.load_gain:.2g} times as quick as computing"
    if plan.engine_gbit > machines.engine_nic_gbit:
        yield (
            f"an engine needs {plan.engine_gbit:.3g} Gbit/s at the peak and has "
            f"{machines.engine_nic_gbit:g}: give each more, or start more of them"
        )
    if plan.engines_with > machines.engines:
        yield f"{plan.engines_with} engines are needed for what is new, of {machines.engines}"
    if machines.replicas == 1 and plan.nodes > 1:
        yield f"one copy: a node that is lost takes 1/{plan.nodes} of all histories along"
    if plan.disk_writes_per_day > WRITES_PER_DAY_MAX:
        yield (
            f"disks are written {plan.disk_writes_per_day:.2g} times over each day: take drives "
            "for that, or larger ones, or limit it with `--nvme-rate`"
        )
    if plan.session_bytes > machines.memory_bytes / 8:
        yield (
            f"one conversation has {format_bytes(plan.session_bytes)}, more than an eighth of a "
            "node's memory: take larger nodes"
        )
