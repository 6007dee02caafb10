"""GD2FS: a distributed store for the KV caches of large language models."""

from gd2fs.address import FileAddress, parse_file_address
from gd2fs.answers import FileStat, Listing, NodeStatus, PageResult, Presence
from gd2fs.client import Client
from gd2fs.errors import Closed, Corrupt, GD2FSError, InvalidRequest, Unavailable
from gd2fs.pages import Pages

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
    "NodeStatus",
    "PageResult",
    "Pages",
    "Presence",
    "Unavailable",
    "__version__",
    "parse_file_address",
]
