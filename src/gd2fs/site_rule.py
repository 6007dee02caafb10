"""Site rule: a site's own Python says what is let in, how long it lives and in which class.

An entry point of the group ``gd2fs.rules`` names a function that maps a list of cases to as many
decisions. It runs in a thread of the node, in lots, and holds nothing up: what it has not judged
within a second is treated as its namespace says, and counted.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from gd2fs.argument import name_text
from gd2fs.errors import InvalidRequest

log = logging.getLogger(__name__)

GROUP = "gd2fs.rules"
POLL_MS = 500  # between two looks whether the node ends
STOP_S = 2.0  # what a rule gets to end in
CASES_MAX = 4096  # of one call, unless a single write has more
COMPLAINT_S = 60.0  # between two lines of the log about a rule that fails
CLASSES = 8  # as core/limits.h says
TTL_S_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Case:
    """One page, or the part of a file that lies in one chunk, before it is stored.

    Attributes:
        namespace: Where it lies.
        path: Of a file; None for a page.
        key: Of a page; None for a file.
        bytes: How many there are.
        priority: What its writer asked for, 0 to 7, or None.
        ttl_s: Seconds to live that its writer asked for, or None.
        tags: What its writer said of itself.
    """

    namespace: str
    path: str | None
    key: bytes | None
    bytes: int
    priority: int | None = None
    ttl_s: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a case. What is None is as its writer asked, or as its namespace has it.

    Attributes:
        admit: False: it is not stored; a put of it says so.
        priority: 0 to 7; for namespaces with the policy ``priority``.
        ttl_s: Seconds to live; 0 is for ever.
    """

    admit: bool = True
    priority: int | None = None
    ttl_s: int | None = None


Rule = Callable[[Sequence[Case]], Sequence[Decision | None]]
Verdict = tuple[bool, int | None, int | None]


class Server(Protocol):
    """What of the native server is judged here."""

    def next_cases(
        self, timeout_ms: int, count_max: int
    ) -> list[tuple[int, bytes, list[tuple[bytes, bool, int, int, int]]]]: ...
    def give_verdicts(self, number: int, verdicts: Sequence[Verdict]) -> None: ...


def load_rule(name: str) -> Rule:
    """The rule that an entry point of this name stands for.

    Raises:
        InvalidRequest: There is none, or it cannot be imported.
    """
    known = {each.name: each for each in entry_points(group=GROUP)}
    if name not in known:
        names = ", ".join(sorted(known)) or "none is installed"
        raise InvalidRequest(
            f"no rule `{name}`", hint=f"an entry point of the group `{GROUP}`; there are: {names}"
        )
    try:
        rule = known[name].load()
    except Exception as cause:
        raise InvalidRequest(
            f"the rule `{name}` ({known[name].value}) cannot be loaded: {cause}",
            hint="import it with this very Python to see why",
        ) from cause
    if not callable(rule):
        raise InvalidRequest(
            f"the rule `{name}` ({known[name].value}) is no function",
            hint="it takes a list of cases, and returns as many decisions",
        )
    return rule


class RuleThread:
    """Judges what is offered to a node, from one thread, until ``stop``."""

    def __init__(self, rule: Rule, server: Server) -> None:
        self._rule = rule
        self._server = server
        self._complained_s = -COMPLAINT_S
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="gd2fs-rule", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, unless the rule hangs: then it ends with the process. The server has
        closed its desk before: nothing waits any more."""
        self._is_stopping = True
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._is_stopping:
            lots = self._server.next_cases(POLL_MS, CASES_MAX)
            if lots:
                self._judge(lots)

    def _judge(
        self, lots: list[tuple[int, bytes, list[tuple[bytes, bool, int, int, int]]]]
    ) -> None:
        cases = [
            case_of(each, tags) for _, text, lot in lots for tags in [_tags(text)] for each in lot
        ]
        verdicts = self._ask(cases)
        at = 0
        for number, _, lot in lots:
            self._server.give_verdicts(number, verdicts[at : at + len(lot)])
            at += len(lot)

    def _ask(self, cases: Sequence[Case]) -> list[Verdict]:
        try:
            decisions = list(self._rule(cases))
            if len(decisions) != len(cases):
                raise ValueError(f"{len(decisions)} decisions for {len(cases)} cases")
            return [verdict_of(each) for each in decisions]
        except Exception:  # foreign code: whatever it does, the node serves on
            now_s = time.monotonic()
            if now_s - self._complained_s >= COMPLAINT_S:
                self._complained_s = now_s
                log.exception("the site's rule failed: namespaces' own rules hold instead")
            return [(True, None, None)] * len(cases)


def case_of(native: tuple[bytes, bool, int, int, int], tags: Mapping[str, str]) -> Case:
    """Make it of what the native server says."""
    name, is_page, count, ttl_s, eviction_class = native
    namespace, _, rest = name.partition(b"\0") if is_page else name[1:].partition(b"/")
    return Case(
        namespace=name_text(namespace),
        path=None if is_page else name_text(name),
        key=rest if is_page else None,
        bytes=count,
        priority=eviction_class if eviction_class < CLASSES else None,
        ttl_s=ttl_s or None,
        tags=tags,
    )


def verdict_of(decision: Decision | None) -> Verdict:
    """As the native server takes it. Raises ValueError for what it would not."""
    if decision is None:
        return (True, None, None)
    if decision.priority is not None and decision.priority not in range(CLASSES):
        raise ValueError(f"a priority of {decision.priority!r}")
    if decision.ttl_s is not None and not 0 <= decision.ttl_s <= TTL_S_MAX:
        raise ValueError(f"a time to live of {decision.ttl_s!r} s")
    return (bool(decision.admit), decision.ttl_s, decision.priority)


def _tags(text: bytes) -> Mapping[str, str]:
    """Of any writer, not only of our own: what is no object of texts is none."""
    try:
        tags: Any = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(tags, dict):
        return {}
    return {name: value for name, value in tags.items() if isinstance(value, str)}
