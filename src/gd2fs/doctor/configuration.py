"""Configuration: whether the node would start with its file at all."""

from __future__ import annotations

from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok
from gd2fs.doctor.subject import Subject


@check("file", "a node does not start with a setting that is wrong")
def file(subject: Subject) -> Iterator[Finding]:
    """Every key and value is right."""
    wanted = subject.wanted
    if wanted.fault:
        yield error(wanted.fault, wanted.hint or "correct it there")
    elif wanted.is_known:
        yield ok("every key and value is right")


@check("users", "memory is shared with processes of the node's own user, and theirs alone")
def user(subject: Subject) -> Iterator[Finding]:
    """Engines of this machine are of the same one."""
    machine = subject.machine
    owners = {
        status.st_uid
        for pid in machine.nodes_here()
        if (status := machine.status(f"/proc/{pid}")) is not None
    }
    mine = machine.probes.user()
    if owners and mine not in owners:
        shown = " and ".join(str(each) for each in sorted(owners))
        yield note(
            f"a node of user {shown} runs here, you are {mine}: a Unix socket, not shared memory",
            f"run engines as user {shown} where they shall map its memory",
        )
    elif owners:
        yield ok(f"the node that runs here is of user {mine}")
