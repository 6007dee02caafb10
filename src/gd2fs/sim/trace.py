"""Trace: requests as arrays: when, how long, and which blocks their prompts are made of.

A block is ``block_tokens`` tokens together with all that comes before them: the same number is the
same prefix. Numbers are dense, from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gd2fs.errors import InvalidRequest

REQUESTS_MAX = (1 << 32) - 2  # a request is a 32-bit number in the core
BLOCKS_MAX = (1 << 32) - 2  # and so is a block
SUCCESSORS_MAX = 4  # of a block that one conversation goes through

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Places = npt.NDArray[np.uint64]
Choices = npt.NDArray[np.int32]
Nodes = npt.NDArray[np.uint16]


def _no_choices() -> Choices:
    return np.empty(0, np.int32)


def _no_times() -> Floats:
    return np.empty(0, np.float64)


def _no_nodes() -> Nodes:
    return np.empty(0, np.uint16)


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of their arrival.

    Attributes:
        name: Where it is from.
        block_tokens: Tokens of a block.
        block_count: Different blocks: their numbers are below.
        arrives_s: When each comes, from 0.
        input_tokens, output_tokens: Of its prompt and of its answer.
        first_block: Where its blocks begin in ``blocks``; one more than there are requests.
        prompt_blocks: How many of them are the prompt's; the answer completes the rest.
        blocks: The blocks of all requests, one after the other.
        session: Equal numbers are one conversation.
        instance: That shall answer it; empty: a balancer decides.
        node: That has its blocks, in a cluster of ``node_count``; empty: not known.
        instance_line: Of its file, the line with the largest ``instance``; 0: it is no file's.
        sha256: Of its file's bytes, in hex; empty: it is no file's.
        measured_first_s, measured_done_s: When its first token and its end came, since it arrived,
            as they were measured; empty: the engines' rates say so.
    """

    name: str
    block_tokens: int
    block_count: int
    arrives_s: Floats
    input_tokens: Words
    output_tokens: Words
    first_block: Places
    prompt_blocks: Words
    blocks: Words
    session: Words
    instance: Choices = field(default_factory=_no_choices)
    instance_line: int = 0
    sha256: str = ""
    node: Nodes = field(default_factory=_no_nodes)
    node_count: int = 0
    measured_first_s: Floats = field(default_factory=_no_times)
    measured_done_s: Floats = field(default_factory=_no_times)

    @property
    def requests(self) -> int:
        """How many there are."""
        return len(self.arrives_s)

    @property
    def sessions(self) -> int:
        """How many conversations."""
        return int(self.session.max()) + 1 if self.requests else 0

    @property
    def span_s(self) -> float:
        """From the first arrival to the last."""
        return float(self.arrives_s[-1]) if self.requests else 0.0

    def arrays(self) -> dict[str, Any]:
        """As the core takes them: it keeps them, and does not change them."""
        return {
            "block_tokens": self.block_tokens,
            "block_count": self.block_count,
            "arrives_s": self.arrives_s,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "first_block": self.first_block,
            "prompt_blocks": self.prompt_blocks,
            "blocks": self.blocks,
            "session": self.session,
            "instance": self.instance,
            "node": self.node,
            "node_count": self.node_count,
            "measured_first_s": self.measured_first_s,
            "measured_done_s": self.measured_done_s,
        }

    def facts(self) -> dict[str, Any]:
        """What to say of it beside results."""
        return {
            "name": self.name,
            "requests": self.requests,
            "sessions": self.sessions,
            "blocks": int(self.prompt_blocks.sum(dtype=np.int64)),
            "distinct_blocks": self.block_count,
            "block_tokens": self.block_tokens,
            "span_s": self.span_s,
            "input_tokens": int(self.input_tokens.sum(dtype=np.int64)),
            "output_tokens": int(self.output_tokens.sum(dtype=np.int64)),
        }

    def faster(self, times: float) -> Trace:
        """The same requests, ``times`` as many in a second."""
        from dataclasses import replace

        return replace(self, arrives_s=self.arrives_s / times)


def plain(number: float) -> str:
    """A number as it can be given again: without an exponent, and without zeros at its end."""
    text = str(number) if isinstance(number, int) else f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def numbered(ids: npt.NDArray[Any]) -> tuple[Words, int]:
    """Ids of any kind as dense numbers, and how many different ones there are."""
    if not len(ids):
        return np.empty(0, np.uint32), 0
    distinct, numbers = np.unique(ids, return_inverse=True)
    if len(distinct) > BLOCKS_MAX:
        raise InvalidRequest(
            f"the trace has {len(distinct):,} different blocks", hint=f"at most {BLOCKS_MAX:,}"
        )
    return numbers.astype(np.uint32), len(distinct)


def sessions_of(full_blocks: Ints, first_block: Places, blocks: Words, block_count: int) -> Words:
    """Conversations of a trace that does not name them.

    A request goes on with the one whose latest full block its own prompt goes through. Blocks that
    many different prompts go through, as of a system prompt, say nothing.

    Args:
        full_blocks: Of each request, how many of its blocks are full.
        first_block, blocks, block_count: As of a ``Trace``.
    """
    is_shared = _shared_blocks(first_block, blocks, block_count)
    of_block: dict[int, int] = {}
    sessions = np.empty(len(full_blocks), np.uint32)
    count = 0
    for request, full in enumerate(full_blocks.tolist()):
        begin = int(first_block[request])
        chain = [each for each in blocks[begin : begin + full].tolist() if not is_shared[each]]
        session = next((of_block[each] for each in reversed(chain) if each in of_block), count)
        count += session == count
        sessions[request] = session
        if chain:
            of_block[chain[-1]] = session
    return sessions


def _shared_blocks(first_block: Places, blocks: Words, block_count: int) -> npt.NDArray[np.bool_]:
    is_last = np.zeros(len(blocks), bool)
    ends = first_block[1:][first_block[1:] > first_block[:-1]]
    is_last[ends.astype(np.int64) - 1] = True
    inner = np.flatnonzero(~is_last)
    pairs = blocks[inner].astype(np.int64) * block_count + blocks[inner + 1]
    before = np.unique(pairs) // max(block_count, 1)
    return np.bincount(before, minlength=block_count) > SUCCESSORS_MAX
