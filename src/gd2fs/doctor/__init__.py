"""Doctor: looks at a machine, a cluster and an engine, and says what is not as it should be.

Each file has the checks of one subject; ``examine`` runs them all. They only read: nothing is
changed, no secret is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from gd2fs.doctor import (
    certificates,
    cluster,
    configuration,
    container,
    disk,
    engine,
    kernel,
    memory,
    network,
    numa,
    rdma,
    sockets,
    tokens,
)
from gd2fs.doctor.check import Check, checks_in
from gd2fs.doctor.finding import Finding, Severity, is_well
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import ENGINES, Subject, Wanted, wanted_of

GROUPS: Mapping[str, Sequence[ModuleType]] = {
    "configuration": (configuration,),
    "memory": (memory,),
    "container": (container,),
    "NUMA": (numa,),
    "network": (network,),
    "sockets": (sockets,),
    "RDMA": (rdma,),
    "kernel": (kernel,),
    "disk": (disk,),
    "security": (tokens, certificates),
    "cluster": (cluster,),
    "engine": (engine,),
}

__all__ = [
    "ENGINES",
    "GROUPS",
    "Check",
    "Finding",
    "Machine",
    "Severity",
    "Subject",
    "Wanted",
    "all_checks",
    "examine",
    "is_well",
    "wanted_of",
]


def all_checks() -> list[tuple[str, Check]]:
    """Every check with its group, in the order in which they run."""
    return [
        (group, check)
        for group, modules in GROUPS.items()
        for module in modules
        for check in checks_in(module)
    ]


def examine(subject: Subject) -> list[Finding]:
    """What all checks find, in their order."""
    return [finding for group, check in all_checks() for finding in check.run(subject, group)]
