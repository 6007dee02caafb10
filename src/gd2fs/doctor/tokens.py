"""Tokens: who may use the cluster, and who could read the secrets. No secret is ever shown."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, ok, warning
from gd2fs.doctor.links import address_of
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject
from gd2fs.errors import InvalidRequest
from gd2fs.tokens import files_of, read_tenants, read_token_file

OTHERS = stat.S_IROTH | stat.S_IWOTH | stat.S_IXOTH


def is_open(subject: Subject) -> list[str]:
    """Where it listens that other machines can reach."""
    hosts = subject.wanted.hosts
    addresses = {host: address_of(host) for host in hosts}
    return [
        host
        for host, address in addresses.items()
        if not (host == "localhost" or (address is not None and address.is_loopback))
    ]


@check("token", "without one, everyone who reaches a node reads what users wrote, and changes it")
def token(subject: Subject) -> Iterator[Finding]:
    """There is one where other machines can reach the node."""
    has_token = subject.setting("token_file") or subject.machine.environment.get("GD2FS_TOKEN")
    if has_token:
        yield ok("there is one")
    elif not is_open(subject):
        if subject.wanted.is_known:
            yield ok("none; only this machine can reach the node")
    else:
        shown = " and ".join(is_open(subject))
        fix = '`gd2fs token new NAME --out FILE`, and `token_file = "FILE"` on all nodes'
        if subject.wanted.options.get("insecure"):
            yield warning(f"none on {shown}, as `insecure` allows", fix)
        else:
            yield error(f"none on {shown}: the node does not start", fix)


@check("token file", "whoever can read it can do whatever a node can")
def token_file(subject: Subject) -> Iterator[Finding]:
    """Of its user alone, with one token or two."""
    path = subject.setting("token_file")
    if not path:
        return
    machine = subject.machine
    yield from secret_file(machine, path, "the token file")
    if not machine.is_readable(path):
        return
    try:
        for token in read_token_file(machine.path(path)):
            yield ok(f"token `{token.name}`")
    except InvalidRequest as fault:
        yield error(str(fault), fault.hint)


def secret_file(machine: Machine, path: str, noun: str) -> Iterator[Finding]:
    """Whether it is there, and who can read it."""
    status = machine.status(path)
    if status is None:
        yield error(f"{noun} {path} is not there", "correct the path, or make it")
    elif status.st_mode & OTHERS:
        yield error(
            f"{noun} {path} has mode {stat.S_IMODE(status.st_mode):04o}: others can get at it",
            f"`chmod 0600 {path}`; then change what is in it, for it may be known",
        )
    elif status.st_mode & stat.S_IWGRP:
        yield warning(f"the group can write to {noun} {path}", f"`chmod g-w {path}`")
    else:
        yield ok(f"{noun} has mode {stat.S_IMODE(status.st_mode):04o}")


@check("tenants", "a token with a right too many reaches what others wrote")
def tenants(subject: Subject) -> Iterator[Finding]:
    """The file says what it means, and no one else reads its secrets."""
    path = subject.setting("tenants")
    if not path:
        return
    machine = subject.machine
    yield from secret_file(machine, path, "the tenants file")
    if not machine.is_readable(path):
        return
    try:
        for token in read_tenants(machine.path(path)):
            where = ", ".join(token.namespaces) or "every namespace"
            yield ok(f"`{token.name}` may {token.right} in {where}")
    except InvalidRequest as fault:
        yield error(str(fault), fault.hint)
    for file in files_of(machine.path(path))[1:]:
        yield from secret_file(machine, machine.seen(file), "a tenant's secret")
