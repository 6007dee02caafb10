"""Files: `ls`, `stat` and `rm`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from gd2fs import Client, Listing
from gd2fs.cli.output import (
    format_bytes,
    print_json,
    print_note,
    print_warning,
    printable_name,
)
from gd2fs.cli.target import (
    ClusterOption,
    CpOption,
    JsonOption,
    Target,
    TransportOption,
    parse_target,
)
from gd2fs.cli.transfer import stat_or_fail
from gd2fs.errors import InvalidRequest, Unavailable

LIST_BATCH = 1000  # names of one request
TRY_AGAIN = "run it again when all nodes are back: `gd2fs status` names them"

PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="/namespace/name, or a gd2fs:// URI")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("ls")(ls)
    app.command("stat")(stat)
    app.command("rm")(rm)
    app.command("sync")(sync)


def ls(
    prefix: Annotated[
        str, typer.Argument(metavar="[PREFIX]", help="Only paths that start so")
    ] = "/",
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """List files: their bytes and their paths, sorted by path."""
    target = parse_target(prefix, cp=cp, cluster=cluster, transport=transport)
    with target.open() as client:
        if as_json:
            entries = [{"path": name, "bytes": size} for name, size in _entries(client, target)]
            print_json({"files": entries})
            return
        for name, size in _entries(client, target):
            print(f"{format_bytes(size):>10}  {printable_name(name)}")


def stat(
    path: PathArgument,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Say what the cluster knows of a file."""
    target = parse_target(path, cp=cp, cluster=cluster, transport=transport).check_file()
    with target.open() as client:
        facts = stat_or_fail(client, target)
    values = {"path": target.path} | {name: getattr(facts, name) for name in _fields(facts)}
    if as_json:
        print_json(values)
        return
    values["replicas"] = facts.replicas or "as many as its namespace has"
    for name, value in values.items():
        print(f"{name:<12} {printable_name(str(value))}")


def rm(
    path: PathArgument,
    is_recursive: Annotated[
        bool, typer.Option("-r", "--recursive", help="All files below PATH")
    ] = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Remove a file; with -r all files below a path, or a whole namespace with its pages."""
    target = parse_target(path, cp=cp, cluster=cluster, transport=transport)
    with target.open() as client:
        if is_recursive:
            count = _remove_below(client, target)
            print_note(f"{count} removed")
        elif not client.unlink(target.check_file().path):
            raise InvalidRequest(
                f"no such file: {target.path}", hint="`gd2fs rm -r PATH` removes what is below PATH"
            )


def sync(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="/namespace/name, or a gd2fs:// URI")
    ],
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Bring files to where they outlive the processes of their nodes.

    Prints where that is and the path: `disk`, or `memory`, which outlives the process and not the
    machine. A file that is nowhere kept is an error.
    """
    lost = []
    for path in paths:
        target = parse_target(path, cp=cp, cluster=cluster, transport=transport).check_file()
        with target.open() as client:
            (where,) = client.sync([target.path])
        if where:
            print(f"{where} {printable_name(target.path)}")
        else:
            lost.append(printable_name(target.path))
    if lost:
        raise InvalidRequest(
            f"not kept: {', '.join(lost)}",
            hint="not there, or its nodes have neither a disk nor a kept arena: `gd2fs status`",
        )


def _entries(client: Client, target: Target) -> Iterator[tuple[str, int]]:
    is_partial = False
    for listing in _listings(client, target):
        is_partial = is_partial or listing.is_partial
        yield from listing.entries
    if is_partial:
        print_warning("some nodes did not answer: the list is not complete")


def _listings(client: Client, target: Target) -> Iterator[Listing[str]]:
    after: str | None = ""
    while after is not None:
        listing = client.list(target.path, after=after, limit=LIST_BATCH)
        yield listing
        after = listing.next


def _remove_below(client: Client, target: Target) -> int:
    below = target.path.rstrip("/") + "/"
    if below.count("/") == 2:  # a whole namespace: its pages go too
        return client.clear(below.strip("/"))
    if below == "/":
        raise InvalidRequest("`/` is every namespace", hint="name one: `gd2fs rm -r /namespace`")
    listings = list(_listings(client, Target(below, target.cp, target.cluster)))
    doomed = [target.path.rstrip("/")] + [name for each in listings for name, _ in each.entries]
    count = _unlink_all(client, doomed, below)
    if any(listing.is_partial for listing in listings):
        raise Unavailable(
            f"{count} files removed at or below {below}, but some nodes did not answer, "
            "so others may be left",
            hint=TRY_AGAIN,
        )
    if not count:
        raise InvalidRequest(f"nothing is at or below {below}", hint="list with `gd2fs ls`")
    return count


def _unlink_all(client: Client, names: list[str], below: str) -> int:
    count = 0
    for name in names:
        try:
            count += client.unlink(name)
        except Unavailable as error:
            raise Unavailable(
                f"{count} files removed at or below {below}, others stayed: {error}",
                hint=TRY_AGAIN,
            ) from error
    return count


def _fields(facts: object) -> list[str]:
    return list(type(facts).__dataclass_fields__)  # type: ignore[attr-defined]
