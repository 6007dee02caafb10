"""Access: what every command that asks a cluster takes, added to it in one place.

It goes into this process's environment, where every client finds it, and no secret stands on a
command line.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

TokenFileOption = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="What it shows to nodes (or GD2FS_TOKEN_FILE, GD2FS_TOKEN)",
        show_default=False,
    ),
]


def _tls_option(word: str, kind: str, text: str) -> Any:
    """An option `--tls-WORD`."""
    return Annotated[
        str | None,
        typer.Option(f"--tls-{word}", metavar=kind, help=text, show_default=False),
    ]


# Of a parameter: its option, and the variable that it stands for.
OPTIONS: dict[str, tuple[Any, str]] = {
    "token_file": (TokenFileOption, "GD2FS_TOKEN_FILE"),
    "tls_ca": (
        _tls_option("ca", "FILE", "TLS: who signs nodes' certificates (or GD2FS_TLS_CA)"),
        "GD2FS_TLS_CA",
    ),
    "tls_cert": (
        _tls_option("cert", "FILE", "Own certificate (or GD2FS_TLS_CERT)"),
        "GD2FS_TLS_CERT",
    ),
    "tls_key": (_tls_option("key", "FILE", "The key of it (or GD2FS_TLS_KEY)"), "GD2FS_TLS_KEY"),
    "tls_name": (
        _tls_option("name", "NAME", "A name nodes' certificates may have (or GD2FS_TLS_NAME)"),
        "GD2FS_TLS_NAME",
    ),
}
ASKING = "cp"  # a command with this parameter asks nodes


def add_access(app: typer.Typer) -> None:
    """Give every command of ``app`` that asks a cluster these options too."""
    for command in app.registered_commands:
        callback = command.callback
        if callback and ASKING in inspect.signature(callback).parameters:
            command.callback = with_access(callback)
    for group in app.registered_groups:
        if group.typer_instance:
            add_access(group.typer_instance)


def with_access(command: Callable[..., Any]) -> Callable[..., Any]:
    """``command`` with the options of access after its own."""

    hints = get_type_hints(command, include_extras=True)
    own = inspect.signature(command)
    options = {name: each for name, each in OPTIONS.items() if name not in own.parameters}

    @functools.wraps(command)
    def asking(*arguments: Any, **words: Any) -> Any:
        for name, (_, variable) in options.items():
            if given := words.pop(name, None):
                os.environ[variable] = given
        return command(*arguments, **words)

    kept = [
        each.replace(annotation=hints.get(name, each.annotation))
        for name, each in own.parameters.items()
    ]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, (option, _) in options.items()
    ]
    asking.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*kept, *added], return_annotation=hints.get("return", own.return_annotation)
    )
    asking.__annotations__ = hints | {each.name: each.annotation for each in added}
    return asking
