"""Hits: how much of a span of pages can be restored, when pools beside the KV cache must follow.

Pure functions over what a lookup found. A span of ``n`` pages may end after any page that every
pool can serve; which those are depends on the pool's policy:

    all_pages        every page before the end is there
    trailing_pages   the last few pages before the end are there, so ends have gaps between them
    block_groups     a second form of whole blocks; says how far it reaches, and limits nobody
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

ALL_PAGES = "all_pages"
TRAILING_PAGES = "trailing_pages"
BLOCK_GROUPS = "block_groups"


@dataclass(frozen=True, slots=True)
class PoolPresence:
    """What a lookup found of one pool.

    Attributes:
        pool: Its name.
        policy: One of the three.
        present: Of each page of the span whether it is there; with ``block_groups`` of each key of
            its groups.
        window_pages: With ``trailing_pages``: how many pages before an end are needed.
        block_pages: With ``block_groups``: pages of the span that one group stands for.
        group_keys: With ``block_groups``: keys of one group.
    """

    pool: str
    policy: str
    present: Sequence[bool]
    window_pages: int = 1
    block_pages: int = 0
    group_keys: int = 0


@dataclass(frozen=True, slots=True)
class SpanHits:
    """What of a span can be restored.

    Attributes:
        ends: After how many pages it may end, in rising order.
        reached: Of each pool that has something how far it reaches by itself.
    """

    ends: list[int]
    reached: dict[str, int]

    @property
    def pages(self) -> int:
        """The longest span that can be restored."""
        return self.ends[-1] if self.ends else 0


def leading(present: Sequence[bool]) -> int:
    """How many are there without a gap, from the first on."""
    return sum(takewhile(bool, present))


def span_hits(kv_pages: int, pools: Sequence[PoolPresence], *, kv_pool: str = "kv") -> SpanHits:
    """Put the pools together.

    Args:
        kv_pages: Leading pages of the KV pool.
        pools: The others.
        kv_pool: What that of the KV pages is called in the answer.
    """
    reached = {kv_pool: kv_pages} if kv_pages else {}
    ends = set(range(1, kv_pages + 1))
    for pool in pools:
        if pool.policy == BLOCK_GROUPS:
            far = min(_whole_groups(pool) * pool.block_pages, kv_pages)
        else:
            own = _ends_of(pool, kv_pages)
            far = max(own, default=0)
            ends &= own
        if far:
            reached[pool.pool] = far
    return SpanHits(sorted(ends), reached)


def _ends_of(pool: PoolPresence, kv_pages: int) -> set[int]:
    if pool.policy == ALL_PAGES:
        return set(range(1, leading(pool.present[:kv_pages]) + 1))
    if pool.policy == TRAILING_PAGES:
        return _ends_with_a_window(pool.present[:kv_pages], pool.window_pages)
    return set()  # of a policy that is not known nothing is promised


def _ends_with_a_window(present: Sequence[bool], window_pages: int) -> set[int]:
    """Ends with ``window_pages`` pages in a row before them, or with all there are."""
    ends, run = set(), 0
    for end, is_there in enumerate(present, 1):
        run = run + 1 if is_there else 0
        if run >= min(window_pages, end):
            ends.add(end)
    return ends


def _whole_groups(pool: PoolPresence) -> int:
    size = pool.group_keys
    if size <= 0:
        return 0
    starts = range(0, len(pool.present) - size + 1, size)
    return leading([all(pool.present[at : at + size]) for at in starts])
