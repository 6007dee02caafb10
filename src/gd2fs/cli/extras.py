"""Extras: parts of gd2fs that need more than the base install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gd2fs.errors import InvalidRequest


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """What is imported within may come with this extra. Raises InvalidRequest that names it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"`{error.name}` is not installed", hint=f"run `pip install 'gd2fs[{extra}]'`"
        ) from error
