"""Config: what running nodes are set to, shown and changed; and how a C program is built against
the libgd2fs that this installation brings.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gd2fs import Client, _core
from gd2fs.answers import NodeReply
from gd2fs.cli.output import print_json, print_note, print_warning, printable
from gd2fs.cli.target import ClusterOption, CpOption, JsonOption, TransportOption
from gd2fs.config_file import as_toml
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.operating import change_setting, fault_of, settings_in

LIBRARY = Path("lib", "libgd2fs.so")

NodeOption = Annotated[
    str,
    typer.Option("--node", metavar="NAME", help="Only this node (else all)", show_default=False),
]
KeyArgument = Annotated[
    str,
    typer.Argument(metavar="KEY", help="As in a file: namespace.NAME.quota, default.policy, …"),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(no_args_is_help=True)
    group.callback(invoke_without_command=True)(config)
    group.command("show")(show)
    group.command("set")(change)
    group.command("unset")(unset)
    app.add_typer(group, name="config")


def config(
    context: typer.Context,
    cflags: Annotated[bool, typer.Option("--cflags", help="Options of the compiler")] = False,
    libs: Annotated[
        bool, typer.Option("--libs", help="Options of the linker; the program finds the library")
    ] = False,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="The folder of `include/` and `lib/`")
    ] = False,
    pkg_config_path: Annotated[
        bool, typer.Option("--pkg-config-path", help="What `PKG_CONFIG_PATH` has to hold")
    ] = False,
) -> None:
    """Show and change what running nodes are set to; or print how to build a C program:
    `cc main.c $(gd2fs config --cflags --libs)`.
    """
    if context.invoked_subcommand is not None:
        return
    root = library_prefix()
    words = []
    if prefix:
        words.append(str(root))
    if pkg_config_path:
        words.append(str(root / "lib" / "pkgconfig"))
    if cflags:
        words.append(f"-I{root / 'include'}")
    if libs:
        words += [f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}", "-lgd2fs"]
    print(shlex.join(words))


def library_prefix() -> Path:
    """Where the header and the library of this installation lie.

    Raises:
        InvalidRequest: It was built without them.
    """
    root = Path(_core.__file__).resolve().parent  # of an editable installation too
    if not (root / LIBRARY).exists():
        raise InvalidRequest(
            f"there is no `{root / LIBRARY}`", hint="install gd2fs again, from its wheel or source"
        )
    return root


# ---- of running nodes ----------------------------------------------------------------------------


def show(
    node: NodeOption = "",
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Print what nodes are set to, as a file for `gd2fs serve --config` would have it."""
    with Client(cp, cluster=cluster, transport=transport) as client:
        replies = client.settings({"do": "show"}, node=node)
    if as_json:
        print_json({"nodes": {each.node: settings_in(each) for each in replies}})
        return
    told = [each for each in replies if settings_in(each) is not None]
    for at, each in enumerate(told):
        if len(replies) > 1:
            print("\n" * (at > 0) + f"# node {printable(each.node)}")
        print(as_toml(settings_in(each) or {}), end="")
    _warn_of_silent(replies)
    if not told:
        raise Unavailable("no node has said what it is set to", hint="look with `gd2fs status`")


def change(
    key: KeyArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="As in a file; quotes may go")],
    node: NodeOption = "",
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Change a setting of running nodes. It holds at once, and until they end."""
    _change(key, value, node, as_json, cp, cluster, transport)


def unset(
    key: KeyArgument,
    node: NodeOption = "",
    as_json: JsonOption = False,
    cp: CpOption = None,
    cluster: ClusterOption = None,
    transport: TransportOption = None,
) -> None:
    """Take a setting of running nodes back: from now on it is as if no file had named it."""
    _change(key, None, node, as_json, cp, cluster, transport)


def _change(
    key: str,
    value: str | None,
    node: str,
    as_json: bool,
    cp: str | None,
    cluster: str | None,
    transport: str | None,
) -> None:
    with Client(cp, cluster=cluster, transport=transport) as client:
        changed = change_setting(client, key, value, node=node)
    if as_json:
        print_json({"key": key, "value": value, "nodes": changed.done})
    elif changed.done:
        names = ", ".join(printable(each) for each in changed.done)
        print_note(f"{_said(key, value)}: {names}")
    for text in changed.warnings:
        print_warning(text)
    if not changed.refused:
        return
    _warn_of_silent(changed.refused if changed.done else ())
    raise fault_of(changed.refused[0])


def _said(key: str, value: str | None) -> str:
    return f"unset {key}" if value is None else f"{key} = {json.dumps(value)}"


def _warn_of_silent(replies: Sequence[NodeReply]) -> None:
    for each in replies:
        if settings_in(each) is None:
            fault = each.value.get("error", "") if each.value else each.fault
            print_warning(f"{each.node}: {fault}")
