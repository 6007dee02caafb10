"""Tokens: who may use the cluster, and who could read the secrets. No secret is ever shown."""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterator
from typing import Any

from gd2fs.doctor.check import check
from gd2fs.doctor.finding import Finding, error, note, ok, warning
from gd2fs.doctor.links import address_of
from gd2fs.doctor.machine import Machine
from gd2fs.doctor.subject import Subject

TOKENS_MAX = 2  # of a cluster: the one that is used, and the one that it is changed from or to
SECRET_MIN = 32
NAME = re.compile(r"[a-z0-9-]{1,32}")
RIGHTS = ("read", "write", "admin")
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
        fix = '`gd2fs token new NAME > FILE` with mode 0600, and `token_file = "FILE"` on all nodes'
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
    yield from secret_file(subject.machine, path, "the token file")
    lines = subject.machine.text(path).splitlines()
    tokens = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    yield from _tokens(path, tokens) if subject.machine.status(path) else ()


def _tokens(path: str, tokens: list[str]) -> Iterator[Finding]:
    fix = "`gd2fs token new NAME` makes one"
    if not 1 <= len(tokens) <= TOKENS_MAX:
        yield error(f"{path} has {len(tokens)} tokens", f"one, or two while it is changed; {fix}")
    for number, each in enumerate(tokens, 1):
        name, _, secret = each.partition(".")
        if not NAME.fullmatch(name) or not secret:
            yield error(f"token {number} of {path} is not `NAME.SECRET`", fix)
        elif len(secret) < SECRET_MIN:
            yield error(f"the secret of token `{name}` has {len(secret)} characters", fix)
        else:
            yield ok(f"token `{name}`")


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
    text = machine.text(path)
    if "secret_file" not in text and "secret_hash" in text and machine.exists(path):
        yield ok("the file has hashes only")
    else:
        yield from secret_file(machine, path, "the tenants file")
    try:
        tokens = tomllib.loads(text).get("tokens", {})
    except tomllib.TOMLDecodeError as cause:
        yield error(f"{path} is not TOML: {cause}", "correct it: a node refuses it too")
        return
    for name, entry in tokens.items():
        yield from _tenant(machine, name, entry)


def _tenant(machine: Machine, name: str, entry: dict[str, Any]) -> Iterator[Finding]:
    where = f"`[tokens.{name}]`"
    rights, namespaces = entry.get("rights"), entry.get("namespaces", [])
    if rights not in RIGHTS:
        yield error(f"{where}: rights `{rights}`", f'`rights = "read"`: one of {", ".join(RIGHTS)}')
    if not namespaces:
        yield note(f"{where} names no namespace", '`namespaces = ["NAME"]`')
    if entry.get("secret_file"):
        yield from secret_file(machine, str(entry["secret_file"]), f"the secret of `{name}`")
