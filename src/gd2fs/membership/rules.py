"""Rules: what a node decides about its own place in the cluster. Pure functions, no clock.

Times are milliseconds of one clock that goes on while the machine sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from gd2fs.membership.state import ClusterState, LeftBy, NodeKey, NodeState

RAMP_PERCENT = (25, 50, 100)  # of a joining node's weight, one step after the other
MARGIN_PARTS = 10  # of a lease, one is not used: clocks drift, and answers take their time
MARGIN_MS_MIN = 100
BEATS_PER_LEASE = 3
RETURN_MS = 60_000  # away for less, a node takes its old place at once
RAMP_PATIENCE = 6  # a step waits for the moves of the one before, at most for this many steps


class Verdict(Enum):
    """What a keep-alive is worth."""

    COUNTS = "counts"
    IS_BEHIND = "maps are missing"  # look again when more was applied
    IS_SPLIT = "answered by two terms"  # perhaps by a leader that is none any more
    IS_REWOUND = "the history is lost"  # another etcd, or an old copy of it


@dataclass(frozen=True, slots=True)
class Beat:
    """etcd's answer to a keep-alive. ``ttl_s`` 0: there is no such lease."""

    ttl_s: int
    term: tuple[int, int]  # of the answer: the member that gave it, and its leader's term


@dataclass(frozen=True, slots=True)
class Listing:
    """The keys of the cluster after that, with the revisions they were put with.

    ``asked_revision``: up to where all was applied when it was asked for.
    """

    revision: int
    revisions: Mapping[str, int]
    term: tuple[int, int]
    asked_revision: int = 0


def verdict_of(beat: Beat, listing: Listing, state: ClusterState) -> Verdict:
    """Whether a keep-alive counts: every map up to the answer is applied.

    Every put rewrites the key `changes` too, so equal revisions of all keys mean that nothing at
    all happened in between. The listing asks a majority; only together with an answer of the same
    member in the same term it proves that the keep-alive reached the leader.
    """
    if listing.revision < listing.asked_revision:
        return Verdict.IS_REWOUND
    if beat.term != listing.term:
        return Verdict.IS_SPLIT
    is_seen = state.revision >= listing.revision or state.revisions == listing.revisions
    return Verdict.COUNTS if is_seen else Verdict.IS_BEHIND


def margin_ms(lease_s: int) -> int:
    """What is left unused of a lease."""
    return max(MARGIN_MS_MIN, lease_s * 1000 // MARGIN_PARTS)


def lease_end_ms(*, sent_ms: int, granted_s: int, lease_s: int) -> int:
    """Until when a node answers for records, after a keep-alive that was sent at ``sent_ms``.

    Others wait for ``lease_s``, the cluster's; what etcd granted beyond that is not used.
    """
    used_s = min(granted_s, lease_s)
    return sent_ms + used_s * 1000 - margin_ms(used_s)


def left_by(lease_ttl_s: int, *, is_early: bool = False) -> LeftBy:
    """How a node left whose key is gone, by what its lease has to live.

    ``is_early``: this etcd may end a lease that its node still counts on.
    """
    return LeftBy.REMOVAL if lease_ttl_s > 0 or is_early else LeftBy.LEASE


def may_end_early(version: str, *, members: int) -> bool:
    """Whether this etcd may end a lease before its time.

    A leader that hung and wakes when there is another one has the leases ended that it heard
    nothing of meanwhile. etcd 3.4.31, 3.5.13 and 3.6 take no such word of an old leader.
    """
    if members == 1:
        return False
    try:
        major, minor, patch = (int(part) for part in version.split("-")[0].split("."))
    except ValueError:
        return True
    return (major, minor, patch) < (3, 4, 31) or (3, 5, 0) <= (major, minor, patch) < (3, 5, 13)


# ---- joining -------------------------------------------------------------------------------------


class Join(Enum):
    """What one who wants to join does now."""

    GO = "go"
    WAIT = "wait"  # for the lease of the one before to end
    REFUSE = "refuse"  # it lives: two processes have one name


def join_of(held: NodeKey | None, *, boot: int, waited_ms: int, lease_s: int) -> Join:
    """Whether the name is free: nobody has it, or this very process has."""
    if held is None or held.member.boot == boot:
        return Join.GO
    # etcd ends a lease a while after it is over, when it gets round to it
    return Join.WAIT if waited_ms <= lease_s * 1000 + 1000 else Join.REFUSE


def first_step(state: ClusterState, name: str, *, away_ms: int | None, ramp_ms: int) -> int:
    """The index in ``RAMP_PERCENT`` to start with. ``away_ms`` None: it was never there."""
    last = len(RAMP_PERCENT) - 1
    others = [key for other, key in state.nodes.items() if other != name]
    has_company = any(key.member.state == NodeState.ACTIVE for key in others)
    is_return = away_ms is not None and away_ms <= RETURN_MS
    return 0 if has_company and not is_return and ramp_ms > 0 else last


def weight_of(weight: int, step: int) -> int:
    """The weight in the map at a step of the ramp, at least 1."""
    return max(1, weight * RAMP_PERCENT[step] // 100)


def state_at(step: int) -> NodeState:
    """Active once the ramp is over."""
    return NodeState.ACTIVE if step == len(RAMP_PERCENT) - 1 else NodeState.JOINING


def is_step_due(*, step: int, lasted_ms: int, ramp_ms: int, moves_left: int | None) -> bool:
    """Whether the next step is due, ``lasted_ms`` after the one before.

    ``moves_left``: what it still moves, of all nodes; None when they do not say.
    """
    steps = len(RAMP_PERCENT) - 1
    if step == steps:
        return False
    step_ms = ramp_ms // steps
    is_quiet = moves_left is not None and moves_left == 0
    return lasted_ms >= step_ms * (1 if is_quiet else RAMP_PATIENCE)


# ---- leaving -------------------------------------------------------------------------------------


def may_drain(state: ClusterState, name: str) -> bool:
    """Whether there is another node to hand over to."""
    own = state.nodes.get(name)
    others = [key for other, key in state.nodes.items() if other != name]
    has_heir = any(key.member.state != NodeState.DRAINING for key in others)
    return own is not None and has_heir


def is_handed_over(counts: Mapping[str, int], *, draining_epoch: int) -> bool:
    """Whether a draining node has nothing left that others have not."""
    return (
        draining_epoch > 0
        and counts["epoch"] >= draining_epoch
        and bool(counts["is_settled"])
        and counts["moves_left"] == 0
        and counts["records_left"] == 0
    )
