"""Question: other memory, other disks, other nodes, as somebody writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gd2fs.config.node import MEMORY_BYTES_MIN
from gd2fs.errors import InvalidRequest
from gd2fs.membership.peers import NODES_MAX
from gd2fs.nvme import PLACE_BYTES_MIN
from gd2fs.sizes import format_bytes, parse_bytes

FACTOR_MAX = 1024.0
BYTES_MAX = 1 << 50  # of one node: more than any has
MEMORY, DISK = "--dram", "--nvme"
DIGITS_MAX = 9  # of a number of nodes; more is too many anyway


@dataclass(frozen=True, slots=True)
class Size:
    """Of each node: so many times what it has, or so many bytes."""

    times: float = 1.0
    bytes: int | None = None

    @classmethod
    def parse(cls, text: str, option: str) -> Size:
        """Read ``2x`` or ``512GiB``. Raises InvalidRequest, also for what no node can have."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*x", text.strip(), re.IGNORECASE | re.ASCII)
        if not match:
            return cls(bytes=_checked(parse_bytes(text), text, option))
        times = float(match[1])
        if not times <= FACTOR_MAX:
            raise InvalidRequest(f"`{option}` is `{text}`", hint=f"at most {FACTOR_MAX:g}x")
        if times == 0 and option == MEMORY:
            raise InvalidRequest(
                f"`{option}` is `{text}`: a node without memory cannot be",
                hint=f"more than 0x, and so much that {format_bytes(MEMORY_BYTES_MIN)} are left",
            )
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
            match = re.fullmatch(r"([+-])0*(\d+)", nodes.strip(), re.ASCII)
            if not match:
                raise InvalidRequest(f"`--nodes` is `{nodes}`", hint="write `+2` or `-1`")
            if len(match[2]) > DIGITS_MAX or int(match[2]) > NODES_MAX:
                raise InvalidRequest(
                    f"`--nodes` is `{nodes}`", hint=f"a cluster has {NODES_MAX:,} nodes at most"
                )
            change = int(match[1] + match[2])
        return cls(
            Size.parse(dram, MEMORY) if dram else Size(),
            Size.parse(nvme, DISK) if nvme else Size(),
            change,
        )

    def spread(self, count: int) -> float:
        """How much more one of ``count`` nodes has for each key when there are others too.

        Raises:
            InvalidRequest: No node would be left, or more than a cluster can have.
        """
        if count + self.nodes < 1:
            raise InvalidRequest(
                f"{count} nodes, {-self.nodes} fewer", hint="one has to be left at least"
            )
        if self.nodes > 0 and count + self.nodes > NODES_MAX:
            raise InvalidRequest(
                f"{count} nodes, {self.nodes} more", hint=f"a cluster has {NODES_MAX:,} at most"
            )
        return (count + self.nodes) / count


def _checked(size: int, text: str, option: str) -> int:
    """``size`` when a node can have so much. No disk at all is fine. Raises InvalidRequest."""
    least = MEMORY_BYTES_MIN if option == MEMORY else PLACE_BYTES_MIN
    if size < least and (size or option == MEMORY):
        none = "" if option == MEMORY else ", or 0 for no disk"
        raise InvalidRequest(
            f"`{option}` is `{text}`: no node can have so little",
            hint=f"{format_bytes(least)} is the least{none}",
        )
    if size > BYTES_MAX:
        raise InvalidRequest(
            f"`{option}` is `{text}`: no node can have so much",
            hint=f"{format_bytes(BYTES_MAX)} is the most",
        )
    return size
