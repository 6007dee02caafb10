"""Question: other memory, other disks, other nodes, as somebody writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gd2fs.errors import InvalidRequest
from gd2fs.sizes import parse_bytes

FACTOR_MAX = 1024.0


@dataclass(frozen=True, slots=True)
class Size:
    """Of each node: so many times what it has, or so many bytes."""

    times: float = 1.0
    bytes: int | None = None

    @classmethod
    def parse(cls, text: str, option: str) -> Size:
        """Read ``2x`` or ``512GiB``. Raises InvalidRequest."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*x", text.strip(), re.IGNORECASE | re.ASCII)
        if not match:
            return cls(bytes=parse_bytes(text))
        times = float(match[1])
        if not times <= FACTOR_MAX:
            raise InvalidRequest(f"`{option}` is `{text}`", hint=f"at most {FACTOR_MAX:g}x")
        return cls(times=times)

    def of(self, now: int) -> float:
        """What a node would have that has ``now`` bytes."""
        return now * self.times if self.bytes is None else float(self.bytes)


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be different. ``nodes``: so many more, or fewer, each as those that there are."""

    dram: Size = Size()
    nvme: Size = Size()
    nodes: int = 0

    @classmethod
    def parse(cls, *, dram: str = "", nvme: str = "", nodes: str = "") -> Question:
        """Read ``2x`` or ``512GiB``, the same of disks, and ``+2`` or ``-1``; empty: as it is.

        Raises:
            InvalidRequest: One of them is none of these.
        """
        change = 0
        if nodes:
            if not re.fullmatch(r"[+-]\d{1,4}", nodes.strip(), re.ASCII):
                raise InvalidRequest(f"`--nodes` is `{nodes}`", hint="write `+2` or `-1`")
            change = int(nodes)
        return cls(
            Size.parse(dram, "--dram") if dram else Size(),
            Size.parse(nvme, "--nvme") if nvme else Size(),
            change,
        )

    def spread(self, count: int) -> float:
        """How much more one of ``count`` nodes has for each key when there are others too.

        Raises:
            InvalidRequest: No node would be left.
        """
        if count + self.nodes < 1:
            raise InvalidRequest(
                f"{count} nodes, {-self.nodes} fewer", hint="one has to be left at least"
            )
        return (count + self.nodes) / count
