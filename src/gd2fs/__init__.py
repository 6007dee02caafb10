"""GD2FS: a distributed store for the KV caches of large language models.

Names are imported when they are first used, so that `gd2fs` can be told to end from its start on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gd2fs.address import FileAddress, parse_file_address
    from gd2fs.answers import FileStat, Listing, NodeStatus, PageResult, Presence
    from gd2fs.client import Client
    from gd2fs.errors import Closed, Corrupt, GD2FSError, InvalidRequest, Unavailable
    from gd2fs.marks import Marks
    from gd2fs.pages import Pages
    from gd2fs.view import View

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Closed",
    "Corrupt",
    "FileAddress",
    "FileStat",
    "GD2FSError",
    "InvalidRequest",
    "Listing",
    "Marks",
    "NodeStatus",
    "PageResult",
    "Pages",
    "Presence",
    "Unavailable",
    "View",
    "__version__",
    "parse_file_address",
]

_HOMES = {
    "address": ("FileAddress", "parse_file_address"),
    "answers": ("FileStat", "Listing", "NodeStatus", "PageResult", "Presence"),
    "client": ("Client",),
    "errors": ("Closed", "Corrupt", "GD2FSError", "InvalidRequest", "Unavailable"),
    "marks": ("Marks",),
    "pages": ("Pages",),
    "view": ("View",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
