"""SGLang: GD2FS as the third level of HiCache, through its `dynamic` storage backend.

SGLang loads ``GD2FSStorage`` from here by name. Nothing of SGLang is imported before that, so
whoever only starts servers, or looks at identities, needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gd2fs.engines.sglang.storage import GD2FSStorage

__all__ = ["GD2FSStorage"]


def __getattr__(name: str) -> Any:
    if name != "GD2FSStorage":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gd2fs.engines.sglang.storage import GD2FSStorage

    return GD2FSStorage
