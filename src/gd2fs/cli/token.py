"""Token: making tokens, and looking at those that there are. A secret is printed by `new` alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from gd2fs import Client
from gd2fs.cli.output import print_json, print_note
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption
from gd2fs.errors import InvalidRequest
from gd2fs.token_watch import TokenPlaces
from gd2fs.tokens import (
    CLUSTER,
    KnownToken,
    files_of,
    new_token,
    read_tenants,
    read_token_file,
    warn_of_readers,
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Public: 1 to 32 of small letters, digits and `-`")
]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="With one token")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write it there, for this user alone to read"),
]
TokenFileOption = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="The cluster's", show_default=False),
]
TenantsOption = Annotated[
    str | None, typer.Option("--tenants", metavar="FILE", help="TOML", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(no_args_is_help=True, help="Make tokens, and check those that there are.")
    group.command("new")(new)
    group.command("hash")(show_hash)
    group.command("check")(check)
    app.add_typer(group, name="token")


def new(name: NameArgument, out: OutOption = None) -> None:
    """Make a token: `NAME.SECRET`, 256 bits from the system."""
    text = new_token(name).as_text()
    if out is None:
        print(text)
        return
    try:
        with open(out, "x", opener=_private, encoding="utf-8") as file:
            file.write(text + "\n")
    except FileExistsError as cause:
        raise InvalidRequest(
            f"{out} is there already",
            hint=f"to add a second token: `gd2fs token new {name} >> {out}`",
        ) from cause
    except FileNotFoundError as cause:
        raise InvalidRequest(
            f"there is no folder {out.parent}", hint=f"`mkdir -p {out.parent}` makes it"
        ) from cause


def show_hash(file: FileArgument) -> None:
    """Print what a file of tenants says instead of a secret, to be guarded like one."""
    [token, *others] = read_token_file(file)
    if others:
        raise InvalidRequest(f"{file} has two tokens", hint="give a file with one")
    print("[tokens." + token.name + "]")
    print(f"secret_hash = {json.dumps(token.key.hex())}")


def check(
    token_file: TokenFileOption = None,
    tenants: TenantsOption = None,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read files as a node would, and say which tokens they have and what these may do; with
    `--cp`, whether a node takes the first one. No secret is shown."""
    if token_file is None and tenants is None:
        raise InvalidRequest("no file is named", hint="pass `--token-file FILE`, `--tenants FILE`")
    known = _known(token_file, tenants)
    if as_json:
        print_json([_facts(each) for each in known])
    else:
        for each in known:
            print("\t".join(_facts(each).values()))
    if cp is not None and token_file is not None:
        with Client(cp, cluster=cluster, token_file=token_file) as client:
            answered = [each.name for each in client.ping() if not each.fault]
        print_note(f"`{known[0].name}` is taken by {', '.join(answered) or 'no node'}")


def _known(token_file: str | None, tenants: str | None) -> tuple[KnownToken, ...]:
    places = TokenPlaces(
        Path(token_file) if token_file else None, None, Path(tenants) if tenants else None
    )
    if token_file is None and tenants is not None:
        warn_of_readers(files_of(Path(tenants)))
        return read_tenants(Path(tenants))
    return places.read()


def _facts(known: KnownToken) -> dict[str, str]:
    where = ",".join(known.namespaces) or "every namespace"
    return {
        "name": known.name,
        "rights": known.right,
        "namespaces": "everything" if known.right == CLUSTER else where,
    }


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
