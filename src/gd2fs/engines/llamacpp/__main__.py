"""The command ``python -m gd2fs.engines.llamacpp``: run one instance."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from gd2fs.engines.llamacpp.server import serve
from gd2fs.engines.llamacpp.settings import STORE_TIMEOUT_S, UBATCH_DEFAULT, EngineSettings
from gd2fs.errors import GD2FSError


def run(
    model: Annotated[str, typer.Option(metavar="FILE", help="A GGUF file")],
    host: Annotated[str, typer.Option(help="Where to serve")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one")] = 8080,
    slots: Annotated[int, typer.Option(help="Requests computed at the same time")] = 2,
    threads: Annotated[int, typer.Option(help="Of the computation")] = 1,
    ctx: Annotated[int, typer.Option(help="Tokens of one slot")] = 2048,
    ubatch: Annotated[
        int, typer.Option(help="Tokens computed at once; answers are exact below 64")
    ] = UBATCH_DEFAULT,
    cp: Annotated[
        str | None, typer.Option(metavar="gd2fs://ADDR:PORT,…", help="Nodes of GD2FS")
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Cluster of GD2FS")] = None,
    store_timeout_s: Annotated[
        float, typer.Option(help="Deadline of one transfer; after it the turn is computed")
    ] = STORE_TIMEOUT_S,
    has_store: Annotated[
        bool, typer.Option("--store/--no-store", help="Without it: llama.cpp's private caches")
    ] = True,
    cache_ram_mib: Annotated[
        int, typer.Option(help="llama.cpp's own prompt cache, with --no-store only")
    ] = 0,
) -> None:
    """Serve llama.cpp without any state of its own: conversations live in GD2FS.

    Prints one line that starts with `ready`, and ends with status 0 on SIGTERM.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    try:
        serve(
            EngineSettings(
                model=model,
                host=host,
                port=port,
                slots=slots,
                threads=threads,
                ctx=ctx,
                ubatch=ubatch,
                cache_ram_mib=cache_ram_mib,
                has_store=has_store,
                cp=cp,
                cluster=cluster,
                store_timeout_s=store_timeout_s,
            )
        )
    except GD2FSError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        raise typer.Exit(1) from error


if __name__ == "__main__":
    typer.run(run)
