"""What writers were told, and what may therefore be read after their node was killed.

A name has the content of its last acknowledged write, or of the one that was on its way when the
node was killed, and no other; never a mix.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GONE = b""  # the content of what is not there


@dataclass
class Told:
    """Of each name, which contents may be seen."""

    acknowledged: dict[str, bytes] = field(default_factory=dict)
    on_its_way: dict[str, bytes] = field(default_factory=dict)

    def begin(self, name: str, content: bytes) -> None:
        """``content`` is about to be written; GONE: the name is about to be removed."""
        self.on_its_way[name] = content

    def end(self, name: str) -> None:
        """It was acknowledged."""
        self.acknowledged[name] = self.on_its_way.pop(name)

    def now(self, name: str) -> bytes:
        """What was acknowledged last."""
        return self.acknowledged.get(name, GONE)

    def names(self) -> list[str]:
        """Every name that was ever written to."""
        return sorted({*self.acknowledged, *self.on_its_way})

    def faults(self, name: str, seen: bytes) -> list[str]:
        """What is wrong with what is seen; then it is what counts from here on."""
        may_be = [self.now(name)]
        if name in self.on_its_way:
            may_be.append(self.on_its_way.pop(name))
        is_right = seen in may_be
        fault = f"{name}: {_text(seen)} is neither of {', '.join(map(_text, may_be))}"
        self.acknowledged[name] = seen
        return [] if is_right else [fault]


def _text(content: bytes) -> str:
    return f"{len(content)} bytes from {content[:8].hex()}" if content else "nothing"
