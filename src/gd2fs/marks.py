"""Marks: what a writer says about its bytes to those who choose what stays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gd2fs.errors import InvalidRequest

CLASSES = 8  # as core/limits.h says
TAGS_BYTES_MAX = 1024  # as JSON


@dataclass(frozen=True)
class Marks:
    """Given with writes, as often as one likes.

    Attributes:
        priority: 0 to 7: where its namespace has the policy ``priority``, what has less goes first.
            None: as the namespace says.
        tags: Names and texts for the site's own rule: a user, a model, a plan. 1,024 bytes of JSON
            at most.

    Raises:
        InvalidRequest: A priority out of range, tags that are no texts, or too many.
    """

    priority: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.priority is not None and self.priority not in range(CLASSES):
            raise InvalidRequest(
                f"`priority` is {self.priority!r}", hint=f"0, which goes first, to {CLASSES - 1}"
            )
        for name, value in self.tags.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InvalidRequest(f"the tag {name!r} is {value!r}", hint="tags are texts")
        if len(self._text()) > TAGS_BYTES_MAX:
            raise InvalidRequest(
                f"{len(self._text())} bytes of tags",
                hint=f"at most {TAGS_BYTES_MAX} go with a write",
            )

    def as_arguments(self) -> dict[str, Any]:
        """As the native client takes them."""
        given: dict[str, Any] = {}
        if self.priority is not None:
            given["eviction_class"] = self.priority
        if self.tags:
            given["tags"] = self._text()
        return given

    def _text(self) -> bytes:
        return json.dumps(dict(self.tags), ensure_ascii=False).encode("utf-8", "surrogatepass")


NONE = Marks()
