"""Config: how a C or C++ program is built against the libgd2fs that this installation brings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gd2fs import _core
from gd2fs.errors import InvalidRequest

LIBRARY = Path("lib", "libgd2fs.so")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("config", no_args_is_help=True)(config)


def config(
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
    """Print how to build a C program: `cc main.c $(gd2fs config --cflags --libs)`."""
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
