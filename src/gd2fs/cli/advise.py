"""Advise: which files and pages shall be in the memory of their nodes."""

from __future__ import annotations

from typing import Annotated

import typer

from gd2fs import Client
from gd2fs.advice import WISHES, Advised
from gd2fs.cli.output import Miss, format_bytes, print_json, print_note, printable_name, progress_of
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption, parse_target
from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

LOOK_S = 0.1  # between two looks at how far it is
DONE = {"willneed": "in memory", "pin": "pinned", "dontneed": "let go", "unpin": "unpinned"}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("advise")(advise)


def advise(
    advice: Annotated[
        str, typer.Argument(metavar="ADVICE", help="willneed, dontneed, pin or unpin")
    ],
    names: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Paths; with --namespace keys of pages")
    ],
    namespace: Annotated[
        str | None, typer.Option(metavar="NAME", help="The names are keys of pages in there")
    ] = None,
    offset: Annotated[str, typer.Option(metavar="SIZE", help="Where the range begins")] = "0",
    length: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of the range; 0: to the end of the file")
    ] = "0",
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="For all of it")
    ] = 60.0,
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Bring files or pages into the memory of their nodes, or let them go from there.

    willneed loads from disk. dontneed takes whole blocks of 64 KiB out of memory; what shall be on
    disk is written first, and without a disk it is lost. pin loads, and keeps; unpin ends that.
    """
    if advice not in WISHES:
        raise InvalidRequest(f"no advice `{advice}`", hint=", ".join(WISHES))
    first = "/" if namespace else names[0]
    target = parse_target(first, cp=cp, cluster=cluster, transport=transport)
    with target.open() as client:
        if namespace:
            begun = client.pages(namespace).fadvise(names, advice, timeout_s=timeout_s)
        else:
            begun = _begin(client, names, advice, offset, length, timeout_s)
        bytes_done = _wait(begun, f"{advice} {len(names)} names")
        missing = [str(name) for name in begun.missing]
    if as_json:
        print_json({"advice": advice, "bytes": bytes_done, "missing": missing})
    else:
        print_note(f"{format_bytes(bytes_done)} {DONE[advice]}")
    if missing:
        shown = ", ".join(printable_name(name) for name in missing[:3])
        raise Miss(shown, f"{len(missing)} of {len(names)} names are not all there")


def _begin(
    client: Client, names: list[str], advice: str, offset: str, length: str, timeout_s: float
) -> Advised:
    paths = [parse_target(name, cp=None, cluster=None, transport=None).path for name in names]
    return client.fadvise(
        paths,
        advice,
        offset=parse_bytes(offset),
        length=parse_bytes(length),
        timeout_s=timeout_s,
    )


def _wait(begun: Advised, what: str) -> int:
    with progress_of(what, None) as advance:
        seen = 0
        while (done := begun.wait(LOOK_S)) is None:
            now = begun.progress_bytes
            advance(now - seen)
            seen = now
    return done
