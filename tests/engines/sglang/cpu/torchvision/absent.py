"""Whatever name is imported, and a plain answer when it is called."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any


class InterpolationMode(Enum):
    """How pixels are resampled; image processors name its members in their defaults."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def names_of(module: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``module``: classes that can be subclassed, but not made."""

    def give(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(self: Any, *arguments: Any, **options: Any) -> None:
            raise NotImplementedError(f"{module}.{name} needs torchvision")

        return type(name, (), {"__init__": refuse})

    return give
