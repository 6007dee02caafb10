"""PromQL: which metrics an expression names, and which of their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*\{([^}]*)\}")
_LABEL_LIST = re.compile(
    r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", re.IGNORECASE
)
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\S+")
_WORD = re.compile(r"(?<![\w:.$])([a-zA-Z_:][a-zA-Z0-9_:]*)\b(?!\s*\()")
_KEYWORDS = {"and", "or", "unless", "bool", "inf", "nan", "by", "without", "on", "ignoring"}


def metrics_in(expression: str) -> set[str]:
    """The names of metrics, those of recording rules among them."""
    bare = _STRING.sub('""', expression)
    bare = _SELECTOR.sub(lambda found: f" {found[1] or ''} ", bare)
    bare = _RANGE.sub(" ", _LABEL_LIST.sub(" ", bare))
    return {word for word in _WORD.findall(bare) if word.lower() not in _KEYWORDS}


def matched_labels(expression: str) -> Iterator[tuple[str, str]]:
    """Each metric with each label by which its series are chosen."""
    for name, matchers in _SELECTOR.findall(_STRING.sub('""', expression)):
        for matcher in matchers.split(","):
            if name and matcher.strip():
                yield name, re.split(r"[=!~]", matcher.strip())[0].strip()


def grouped_labels(expression: str) -> set[str]:
    """The labels that series are summed or joined by."""
    lists = _LABEL_LIST.findall(_STRING.sub('""', expression))
    return {label.strip() for each in lists for label in each.split(",") if label.strip()}
