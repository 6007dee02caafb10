"""Demand: what users ask of a fleet, and what that means in tokens. No bytes here.

Every formula stands in docs/guides/sizing.md under the name that it has here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from gd2fs.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Demand:
    """Conversations of many users, in a steady state.

    Attributes:
        users: Conversations that are going on at the same time.
        turns: Of one conversation.
        prompt_tokens: New ones of a user's turn.
        answer_tokens: Of an answer.
        shared_tokens: That every prompt begins with, alike for all.
        interval_s: From one turn of a conversation to the next.
        keep_s: How long it shall be found again after its last turn.
        peak: The busiest minutes, as a multiple of the mean.
        local_share: Of the history, found in the engine itself: 0 for stateless ones.
    """

    users: float
    turns: float = 8
    prompt_tokens: float = 400
    answer_tokens: float = 300
    shared_tokens: float = 1000
    interval_s: float = 60.0
    keep_s: float = 3600.0
    peak: float = 2.0
    local_share: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, high = RANGES[field.name]
            if not (math.isfinite(value) and low <= value <= high):
                raise InvalidRequest(
                    f"`{field.name}` is {value:g}", hint=f"give {low:g} to {high:g}"
                )
        if self.turn_tokens <= 0:
            raise InvalidRequest("a turn has no tokens", hint="give `--prompt-tokens`")

    @property
    def turn_tokens(self) -> float:
        """New tokens of a turn, prompt and answer."""
        return self.prompt_tokens + self.answer_tokens

    @property
    def session_s(self) -> float:
        """How long a conversation goes on."""
        return self.turns * self.interval_s

    @property
    def sessions_per_s(self) -> float:
        """That begin, and end: Little's law."""
        return self.users / self.session_s

    @property
    def turns_per_s(self) -> float:
        """Of all users."""
        return self.users / self.interval_s

    @property
    def session_tokens(self) -> float:
        """Of a whole conversation, without what all share."""
        return self.turns * self.turn_tokens

    @property
    def active_tokens(self) -> float:
        """Kept for conversations that are going on: on the mean they are half way."""
        return self.users * (self.turns + 1) / 2 * self.turn_tokens

    @property
    def ended_tokens(self) -> float:
        """Kept for those that have ended, for ``keep_s``."""
        return self.sessions_per_s * self.keep_s * self.session_tokens

    @property
    def history_tokens(self) -> float:
        """That the prompt of a turn begins with, on the mean over all turns."""
        return self.shared_tokens + (self.turns - 1) / 2 * self.turn_tokens

    @property
    def longest_tokens(self) -> float:
        """Of the last prompt of a conversation."""
        return self.shared_tokens + self.session_tokens - self.answer_tokens

    @property
    def read_tokens_per_s(self) -> float:
        """Loaded by all engines together."""
        return self.turns_per_s * self.history_tokens * (1 - self.local_share)

    @property
    def written_tokens_per_s(self) -> float:
        """Stored by all engines together, before copies."""
        return self.turns_per_s * self.turn_tokens

    @property
    def prefill_tokens_per_s(self) -> float:
        """To compute by all engines together when every history is found."""
        return self.turns_per_s * self.prompt_tokens

    @property
    def cold_tokens_per_s(self) -> float:
        """To compute when none is."""
        return self.turns_per_s * (self.history_tokens + self.prompt_tokens)


RANGES = {
    "users": (1, 1e9),
    "turns": (1, 1e5),
    "prompt_tokens": (0, 1e7),
    "answer_tokens": (0, 1e7),
    "shared_tokens": (0, 1e7),
    "interval_s": (1e-3, 1e7),
    "keep_s": (0, 1e9),
    "peak": (1, 100),
    "local_share": (0, 1),
}
