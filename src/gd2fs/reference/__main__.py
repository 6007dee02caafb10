"""Write pages of docs/reference that are made of the code: `python -m gd2fs.reference [PAGE…]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gd2fs.reference import PAGES

FOLDER = Path("docs", "reference")


def write(
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="PAGE…", help=f"Of {', '.join(PAGES)}; else all")
    ] = None,
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where they lie")] = FOLDER,
) -> None:
    """Write them."""
    unknown = [name for name in pages or () if name not in PAGES]
    if unknown:
        raise typer.BadParameter(f"`{unknown[0]}` is none of {', '.join(PAGES)}")
    for name in pages or PAGES:
        (folder / f"{name}.md").write_text(PAGES[name](), encoding="utf-8")
        print(folder / f"{name}.md")


typer.run(write)
