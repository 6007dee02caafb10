"""Config file: the options of a node and the rules of namespaces, in TOML.

Top-level keys are the options of ``gd2fs serve``; ``[default]`` and ``[namespace.NAME]`` are rules.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.rules import RuleSet, parse_rule_tables

FILE_BYTES_MAX = 1 << 20
LEAF = 739_391  # what a key is given to be read; none would be said to be it
RULE_TABLES = ("default", "namespace")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a file says: options by their names in Python, as they stand there, and rules."""

    options: Mapping[str, Any]
    rules: RuleSet


def read_config(path: Path, options: Mapping[str, type]) -> ConfigFile:
    """Read and check a file.

    Args:
        path: Of the file.
        options: What may stand at its top, with its kind: ``str``, ``int`` or ``float``. A ``-`` in
            a key is as good as a ``_``. A list of texts stands for them with commas between.

    Raises:
        InvalidRequest: The file cannot be read, is not TOML, or has a key or value that means
            nothing; the message has the file and the whole key.
    """
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as cause:
        raise InvalidRequest(
            f"cannot read {path}: {cause.strerror}", hint="name a file that is there"
        ) from cause
    if len(text) > FILE_BYTES_MAX:
        raise InvalidRequest(f"{path} is over {FILE_BYTES_MAX} bytes", hint="name a TOML file")
    try:
        tables = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise InvalidRequest(f"{path} is not TOML: {cause}", hint="fix it there") from cause
    try:
        return parse_config(tables, options)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error}", hint=error.hint) from error


def parse_config(tables: Mapping[str, Any], options: Mapping[str, type]) -> ConfigFile:
    """The same of what TOML says. Raises InvalidRequest."""
    rules = parse_rule_tables(tables.get("default"), tables.get("namespace"))
    values = {}
    for key, value in tables.items():
        if key not in RULE_TABLES:
            name = key.replace("-", "_")
            values[name] = _checked(key, value, options.get(name), options)
    return ConfigFile(values, rules)


def parse_key(key: str) -> tuple[str, ...]:
    """The parts of ``namespace.kv.quota`` as TOML reads keys, quotes and all.

    Raises:
        InvalidRequest: It is no key.
    """
    try:
        table: Any = tomllib.loads(f"{key} = {LEAF}")
    except tomllib.TOMLDecodeError as cause:
        raise InvalidRequest(
            f"`{key}` is no key", hint='for example `namespace.kv.quota` or `namespace."a b".ttl`'
        ) from cause
    parts = []
    while isinstance(table, dict):
        if len(table) != 1:
            raise InvalidRequest(f"`{key}` is no key", hint="give one key on one line")
        [(part, table)] = table.items()
        parts.append(part)
    if table != LEAF:
        raise InvalidRequest(f"`{key}` is no key", hint="give a key without its value")
    return tuple(parts)


def as_toml(tables: Mapping[str, Any]) -> str:
    """Write tables of texts and numbers as TOML: what ``read_config`` reads."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in tables.items() if _is_plain(value)]
    for name, table in tables.items():
        if not _is_plain(table):
            lines += _table_lines((name,), table)
    return "\n".join(lines) + "\n"


def _table_lines(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterable[str]:
    plain = {key: value for key, value in table.items() if _is_plain(value)}
    if plain or not table:
        yield ""
        yield f"[{'.'.join(_key(part) for part in path)}]"
        for key, value in plain.items():
            yield f"{_key(key)} = {_value(value)}"
    for key, value in table.items():
        if not _is_plain(value):
            yield from _table_lines((*path, key), value)


def _is_plain(value: object) -> bool:
    return not isinstance(value, Mapping)


def _key(part: str) -> str:
    is_bare = part.isascii() and part and all(each.isalnum() or each in "-_" for each in part)
    return part if is_bare else _value(part)


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)  # texts, numbers and lists are written alike
    return text.replace("\x7f", "\\u007f")


def _checked(key: str, value: Any, kind: type | None, options: Mapping[str, type]) -> Any:
    if kind is None:
        near = difflib.get_close_matches(key.replace("-", "_"), [*options, *RULE_TABLES], 1)
        hint = f"did you mean `{near[0]}`?" if near else "`gd2fs serve --help` lists the options"
        raise InvalidRequest(f"`{key}` is no setting", hint=hint)
    if kind is str and isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind is str and is_number:
        return str(value)  # a size in bytes
    if (kind is float and is_number) or (kind is int and is_number):
        return value
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidRequest(f"`{key}` is {value!r}", hint=f"give {_KINDS[kind]}")
    return value


_KINDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
