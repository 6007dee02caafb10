"""Site rule: a site's own Python says what is let in, how long it lives and in which class.

An entry point of the group ``gd2fs.rules`` names a function that maps a list of cases to as many
decisions. It runs in a thread of the node, in lots, and holds nothing up: what it has not judged
within a second, or has failed at, is treated as its namespace says, and counted.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from gd2fs.argument import name_text, whole
from gd2fs.errors import InvalidRequest

log = logging.getLogger(__name__)

GROUP = "gd2fs.rules"
POLL_MS = 500  # between two looks whether the node ends
STOP_S = 2.0  # what a rule gets to end in
LATE_S = 1.0  # JUDGE_MS of core/limits.h: then writes go on without it
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
NativeCase = tuple[bytes, bool, int, int, int]
Lot = tuple[int, bytes, list[NativeCase]]


class Server(Protocol):
    """What of the native server is judged here."""

    def next_cases(self, timeout_ms: int, count_max: int) -> list[Lot]: ...
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
    except (Exception, SystemExit) as cause:
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
    """Judges what is offered to a node, from one thread, until ``stop``. ``name`` is of the rule,
    for the log."""

    def __init__(self, name: str, rule: Rule, server: Server) -> None:
        self._name = name
        self._rule = rule
        self._server = server
        self._complained_s = -COMPLAINT_S
        self._failures = 0  # since the last line of the log about them
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

    def _judge(self, lots: Sequence[Lot]) -> None:
        start_s = time.monotonic()
        try:
            verdicts = self._ask(lots)  # all that the native server would refuse raises here
        except BaseException as error:  # foreign code: SystemExit too ends neither node nor thread
            self._complain(f"has failed with {_words_of(error)}", error)
            verdicts = [[] for _ in lots]  # none: the server lets them pass, and counts them
        late_s = time.monotonic() - start_s
        if late_s > LATE_S:
            self._complain(f"took {late_s:.1f} s for a lot, where {LATE_S:g} s are waited for")
        for (number, _, _), each in zip(lots, verdicts, strict=True):
            self._server.give_verdicts(number, each)

    def _ask(self, lots: Sequence[Lot]) -> list[list[Verdict]]:
        cases = [
            case_of(each, tags) for _, text, lot in lots for tags in [_tags(text)] for each in lot
        ]
        count = len(cases)  # the rule may do with its list as it likes
        decisions = list(itertools.islice(self._rule(cases), count + 1))
        if len(decisions) != count:
            told = f"{len(decisions)}" if len(decisions) < count else "more"
            raise ValueError(f"{told} decisions for {count} cases")
        verdicts = iter([verdict_of(each) for each in decisions])
        return [list(itertools.islice(verdicts, len(lot))) for _, _, lot in lots]

    def _complain(self, what: str, error: BaseException | None = None) -> None:
        self._failures += 1
        now_s = time.monotonic()
        if now_s - self._complained_s < COMPLAINT_S:
            return
        log.error(
            "the site's rule `%s` %s: writes go on as their namespaces say (%d times since the "
            "last such line)",
            *(self._name, what, self._failures),
            exc_info=error,
        )
        self._complained_s, self._failures = now_s, 0


def case_of(native: NativeCase, tags: Mapping[str, str]) -> Case:
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
    """As the native server takes it. Raises InvalidRequest for what it would not."""
    if decision is None:
        return (True, None, None)
    admit, ttl_s, priority = decision.admit, decision.ttl_s, decision.priority
    return (
        admit is None or bool(admit),
        None if ttl_s is None else whole("ttl_s", ttl_s, TTL_S_MAX),
        None if priority is None else whole("priority", priority, CLASSES - 1),
    )


def _tags(text: bytes) -> Mapping[str, str]:
    """Of any writer, not only of our own: what is no object of texts is none."""
    try:
        tags: Any = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(tags, dict):
        return {}
    return {name: value for name, value in tags.items() if isinstance(value, str)}


def _words_of(error: BaseException) -> str:
    """Of foreign code too, whose text may fail itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return type(error).__name__
