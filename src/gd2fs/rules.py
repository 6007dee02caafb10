"""Rules: how nodes treat what lies in a namespace, as people write it.

A table of rules stands under ``[default]`` or ``[namespace.NAME]`` of a configuration file; what
it does not name is as for every namespace. Values are checked here, and again in the core.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.membership.replicas import check_namespace
from gd2fs.sizes import format_size, parse_bytes

POLICIES = ("lru", "s3-fifo", "priority")
DEMOTIONS = ("none", "back", "through")
KEEPS = ("inclusive", "exclusive")
CLASSES = 8  # as core/limits.h says; 0 goes first
CLASS_DEFAULT = 3
NAMESPACES_MAX = 255  # with rules of their own
TTL_S_MAX = 2**32 - 1
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class NamespaceRules:
    """How one namespace is treated.

    Attributes:
        policy: In which order pieces go: ``lru``, ``s3-fifo`` or ``priority``.
        eviction_class: 0 to 7; for lack of room class 0 goes first, whatever its age.
        quota_bytes: Of memory on each node; 0 is none.
        disk_quota_bytes: Of disk on each node; 0 is none.
        ttl_s: Seconds to live of what is written without a time of its own; 0 is none.
        pin_bytes_max: Bytes that may be pinned on each node; None: as many as the node allows.
        demote: When bytes go to disk: ``none``, ``back`` or ``through``; None: as the node says.
        keep: ``inclusive`` or ``exclusive``; None: as the node says.
    """

    policy: str = "lru"
    eviction_class: int = CLASS_DEFAULT
    quota_bytes: int = 0
    disk_quota_bytes: int = 0
    ttl_s: int = 0
    pin_bytes_max: int | None = None
    demote: str | None = None
    keep: str | None = None

    def as_table(self) -> dict[str, str | int]:
        """What differs from the rules of every namespace, as a file says it."""
        table = {}
        for key, rule in KEYS.items():
            value = getattr(self, rule.field)
            if value != getattr(PLAIN, rule.field):
                table[key] = rule.show(value)
        return table

    def with_value(self, key: str, value: object, where: str) -> NamespaceRules:
        """The same but for one rule; ``value`` None: as for every namespace.

        Args:
            key: A key of ``KEYS``.
            value: As a file has it, or a text of the same meaning.
            where: What the value is called in messages: ``namespace.kv.quota``.

        Raises:
            InvalidRequest: There is no such rule, or its value is out of range.
        """
        rule = KEYS.get(key)
        if rule is None:
            raise InvalidRequest(f"`{where}` is no rule", hint=_nearest(key, KEYS))
        if value is None:
            return replace(self, **{rule.field: getattr(PLAIN, rule.field)})
        return replace(self, **{rule.field: rule.parse(value, where)})


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of all namespaces: of those that are named, and of all others."""

    default: NamespaceRules = field(default_factory=NamespaceRules)
    namespaces: Mapping[str, NamespaceRules] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.namespaces) > NAMESPACES_MAX:
            raise InvalidRequest(
                f"{len(self.namespaces)} namespaces have rules of their own",
                hint=f"at most {NAMESPACES_MAX}; put what they have in common under `[default]`",
            )

    def of(self, namespace: str) -> NamespaceRules:
        """The rules by which ``namespace`` is treated."""
        return self.namespaces.get(namespace, self.default)

    def with_rules(self, namespace: str | None, rules: NamespaceRules) -> RuleSet:
        """The same but for one namespace; None: all that are not named."""
        if namespace is None:
            return RuleSet(rules, self.namespaces)
        return RuleSet(self.default, {**self.namespaces, namespace: rules})

    def without(self, namespace: str) -> RuleSet:
        """The same, as if ``namespace`` had never been named."""
        left = {name: rules for name, rules in self.namespaces.items() if name != namespace}
        return RuleSet(self.default, left)

    def as_tables(self) -> dict[str, Any]:
        """``default`` and ``namespace`` as a file has them."""
        tables: dict[str, Any] = {}
        if self.default != PLAIN:
            tables["default"] = self.default.as_table()
        if self.namespaces:
            tables["namespace"] = {
                name: rules.as_table() for name, rules in sorted(self.namespaces.items())
            }
        return tables


def parse_rule_tables(default: object, namespaces: object) -> RuleSet:
    """Read what stands under ``default`` and ``namespace``.

    A namespace with a table of its own takes nothing from ``default``.

    Raises:
        InvalidRequest: A key that is no rule, or a value that is none, by its whole name.
    """
    rules = RuleSet(_parse_table(default, "default"))
    for name, table in _table(namespaces, "namespace").items():
        check_namespace(name)
        rules = rules.with_rules(name, _parse_table(table, f"namespace.{name}"))
    return rules


def parse_duration(value: object, where: str) -> int:
    """Seconds: ``90``, ``"90s"``, ``"15m"``, ``"2h"``, ``"7d"`` or ``"1w"``.

    Raises:
        InvalidRequest: It is none of these, or longer than 136 years.
    """
    match = re.fullmatch(r"(\d+)\s*([smhdw]?)", str(value).strip(), re.ASCII)
    seconds = int(match[1]) * SECONDS[match[2] or "s"] if match else -1
    if isinstance(value, bool) or not 0 <= seconds <= TTL_S_MAX:
        raise InvalidRequest(
            f"`{where}` is {value!r}", hint="give seconds, or for example `15m`, `2h` or `7d`"
        )
    return seconds


def _parse_table(table: object, where: str) -> NamespaceRules:
    rules = NamespaceRules()
    for key, value in _table(table, where).items():
        rules = rules.with_value(key, value, f"{where}.{key}")
    return rules


def _table(value: object, where: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(
            f"`{where}` is {value!r}, not a table", hint=f"write `[{where}]`, and rules below it"
        )
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[object, str], str]:
    def parse(value: object, where: str) -> str:
        if value not in words:
            raise InvalidRequest(f"`{where}` is {value!r}", hint=f"one of {', '.join(words)}")
        return str(value)

    return parse


def _parse_size(value: object, where: str) -> int:
    if value == "none":
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        return parse_bytes(value if isinstance(value, str) else "")
    except InvalidRequest as cause:
        raise InvalidRequest(
            f"`{where}` is {value!r}, not a size", hint="for example `16GiB`, or `none`"
        ) from cause


def _parse_pin_max(value: object, where: str) -> int:
    return 0 if value == "none" else _parse_size(value, where)


def _parse_class(value: object, where: str) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < CLASSES:
        raise InvalidRequest(
            f"`{where}` is {value!r}", hint=f"0, which goes first, to {CLASSES - 1}"
        )
    return number


def _show_size(value: int) -> str | int:
    return format_size(value) if value else "none"


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _Rule:
    field: str
    parse: Callable[[object, str], Any]
    show: Callable[[Any], str | int] = _same


PLAIN = NamespaceRules()
KEYS = {
    "policy": _Rule("policy", _one_of(POLICIES)),
    "class": _Rule("eviction_class", _parse_class),
    "quota": _Rule("quota_bytes", _parse_size, _show_size),
    "disk_quota": _Rule("disk_quota_bytes", _parse_size, _show_size),
    "ttl": _Rule("ttl_s", parse_duration),
    "pin_max": _Rule("pin_bytes_max", _parse_pin_max, _show_size),
    "demote": _Rule("demote", _one_of(DEMOTIONS)),
    "keep": _Rule("keep", _one_of(KEEPS)),
}


def _nearest(key: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    return f"did you mean `{near[0]}`?" if near else f"one of {', '.join(known)}"
