"""Tokens: what proves that a side belongs to the cluster, or may use namespaces of it.

A token is ``NAME.SECRET``. The name is public. A node keeps only the SHA-256 of the secret, which
keys the proofs of the wire; whoever shows the secret itself, over HTTP, is compared by it too.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import logging
import re
import secrets
import stat
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest
from gd2fs.membership.replicas import check_namespace

SECRET_BYTES = 32  # of a new one, before it is written in letters
FILE_BYTES_MAX = 1 << 20
CLUSTER_TOKENS_MAX = 2  # the one in use, and the one before or after it
TOKENS_MAX = 4096  # as core/limits.h says
KEY_BYTES = 32
EVERYWHERE = "*"
RIGHTS = ("read", "write", "admin")  # each has those before it
CLUSTER = "cluster"
HINT = "`gd2fs token new NAME` makes one"

_NAME = re.compile(r"[a-z0-9-]{1,32}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{32,256}")
_KEYS = ("secret_hash", "secret_file", "rights", "namespaces")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """One token. Its secret shows in no text that Python makes of it."""

    name: str
    secret: str = field(repr=False)

    @property
    def key(self) -> bytes:
        """What keys the proofs of the wire, 32 bytes."""
        return key_of(self.secret)

    def as_text(self) -> str:
        """``NAME.SECRET``: only for where it is handed over."""
        return f"{self.name}.{self.secret}"


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token as a node knows it, and what it may do.

    Attributes:
        name: Of the token.
        key: SHA-256 of its secret, 32 bytes.
        right: ``read``, ``write``, ``admin``, or ``cluster``: everything, and being a node.
        namespaces: Where; empty: in all of them.
    """

    name: str
    key: bytes = field(repr=False)
    right: str = CLUSTER
    namespaces: tuple[str, ...] = ()

    @property
    def is_everywhere(self) -> bool:
        """What it may, it may in every namespace, and of the node as a whole."""
        return not self.namespaces

    def may(self, right: str, namespace: str | None = None) -> bool:
        """May it do what takes ``right`` in ``namespace``; without one: of the whole node?"""
        has_right = self.right == CLUSTER or RIGHTS.index(self.right) >= RIGHTS.index(right)
        return has_right and (self.is_everywhere or namespace in self.namespaces)

    def as_core(self) -> tuple[str, bytes, str, list[str]]:
        """As the native server takes it."""
        return self.name, self.key, self.right, list(self.namespaces)


def key_of(secret: str) -> bytes:
    """SHA-256 of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def new_token(name: str) -> Token:
    """Make a token with a fresh secret. Raises InvalidRequest when the name is none."""
    return Token(check_token_name(name), secrets.token_urlsafe(SECRET_BYTES))


def check_token_name(name: str) -> str:
    """Return ``name`` when it can name a token. Raises InvalidRequest."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"`{name}` is no name of a token", hint="1 to 32 of small letters, digits and `-`"
        )
    return name


def parse_token(text: str, where: str = "the token") -> Token:
    """Read ``NAME.SECRET``. No message repeats any part of a secret.

    Raises:
        InvalidRequest: It is no token.
    """
    name, dot, secret = text.strip().partition(".")
    if not dot or not _NAME.fullmatch(name):
        raise InvalidRequest(f"{where} is not `NAME.SECRET`", hint=HINT)
    if not _SECRET.fullmatch(secret):
        raise InvalidRequest(
            f"{where}: the secret of `{name}` is not 32 to 256 letters, digits, `-` and `_`",
            hint=HINT,
        )
    return Token(name, secret)


def read_token_file(path: Path) -> tuple[Token, ...]:
    """The tokens of a file, one a line, ``#`` before what is none; the first is the one to show.

    Raises:
        InvalidRequest: It cannot be read, has none or more than two, or two of one name.
    """
    lines = enumerate(map(str.strip, _read(path).splitlines()), start=1)
    tokens = tuple(
        parse_token(line, f"line {number} of {path}")
        for number, line in lines
        if line and line[0] != "#"
    )
    if not 1 <= len(tokens) <= CLUSTER_TOKENS_MAX:
        raise InvalidRequest(
            f"{path} has {len(tokens)} tokens", hint="one, or while tokens are rotated two"
        )
    _check_names(path, [token.name for token in tokens])
    return tokens


def read_tenants(path: Path) -> tuple[KnownToken, ...]:
    """The tokens of tenants, and what each may do, from a TOML file.

    Raises:
        InvalidRequest: The file, or one that it names, cannot be read or says what means nothing.
    """
    try:
        tables = tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError) as cause:
        # The parser's words may quote the file: a secret may stand there by mistake.
        raise InvalidRequest(f"{path} is not TOML", hint="fix it there") from cause
    unknown = [key for key in tables if key != "tokens"]
    tokens = tables.get("tokens", {})
    if unknown or not isinstance(tokens, dict):
        raise InvalidRequest(f"{path}: only tables `[tokens.NAME]` stand there", hint="fix it")
    if len(tokens) > TOKENS_MAX - CLUSTER_TOKENS_MAX:
        raise InvalidRequest(f"{path} has {len(tokens)} tokens", hint="a node knows 4,094 of them")
    return tuple(_tenant(path, name, table) for name, table in tokens.items())


def cluster_tokens(tokens: Iterable[Token]) -> tuple[KnownToken, ...]:
    """With all rights."""
    return tuple(KnownToken(token.name, token.key) for token in tokens)


def files_of(tenants: Path | None) -> list[Path]:
    """Every file that says what the tokens of tenants are; those that cannot be read left out."""
    if tenants is None:
        return []
    try:
        tables = tomllib.loads(_read(tenants)).get("tokens", {})
        named = [table.get("secret_file") for table in tables.values()]
    except (InvalidRequest, tomllib.TOMLDecodeError, RecursionError, AttributeError):
        return [tenants]
    return [tenants, *(tenants.parent / each for each in named if isinstance(each, str))]


def check_all(known: Sequence[KnownToken]) -> tuple[KnownToken, ...]:
    """Return ``known`` when no two have one name. Raises InvalidRequest."""
    _check_names("the tokens", [each.name for each in known])
    return tuple(known)


def _tenant(path: Path, name: str, table: Any) -> KnownToken:
    where = f"{path}: `tokens.{name}`"
    check_token_name(name)
    if not isinstance(table, dict):
        raise InvalidRequest(f"{where} is no table", hint="write `[tokens.NAME]`")
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(_KEYS)}"
            raise InvalidRequest(f"{where} has no setting `{key}`", hint=hint)
    right = table.get("rights")
    if right not in RIGHTS:
        raise InvalidRequest(f"{where}: `rights` is {right!r}", hint=f"one of {', '.join(RIGHTS)}")
    return KnownToken(name, _key(path, name, where, table), right, _namespaces(where, table))


def _key(path: Path, name: str, where: str, table: Mapping[str, Any]) -> bytes:
    hashed, file = table.get("secret_hash"), table.get("secret_file")
    if (hashed is None) == (file is None):
        raise InvalidRequest(
            f"{where} has not one secret", hint="give `secret_hash` or `secret_file`"
        )
    if file is not None:
        if not isinstance(file, str):
            raise InvalidRequest(f"{where}: `secret_file` is no path", hint="name a file")
        [token, *others] = read_token_file(path.parent / file)
        if others or token.name != name:
            raise InvalidRequest(f"{where}: {file} is not of this token alone", hint="fix one")
        return token.key
    if not isinstance(hashed, str) or not re.fullmatch(r"[0-9a-f]{64}", hashed):
        raise InvalidRequest(
            f"{where}: `secret_hash` is not 64 hexadecimal digits",
            hint="`gd2fs token hash FILE` prints it",
        )
    return bytes.fromhex(hashed)


def _namespaces(where: str, table: Mapping[str, Any]) -> tuple[str, ...]:
    names = table.get("namespaces")
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        raise InvalidRequest(
            f"{where}: `namespaces` lists none", hint='`["a", "b"]`, or `["*"]` for all of them'
        )
    if EVERYWHERE in names:
        if len(names) > 1:
            raise InvalidRequest(f"{where}: `*` stands beside others", hint="it means all of them")
        return ()
    for each in names:
        check_namespace(each)
    return tuple(sorted(set(names)))


def _check_names(where: object, names: Sequence[str]) -> None:
    [(name, count)] = Counter(names).most_common(1) or [("", 0)]
    if count > 1:
        raise InvalidRequest(
            f"{where}: two tokens are called `{name}`", hint="give the new one a new name"
        )


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise InvalidRequest(f"{path} is over {FILE_BYTES_MAX} bytes", hint="name another")
        return text.decode()
    except UnicodeDecodeError as cause:
        raise InvalidRequest(f"{path} is no text", hint="name another") from cause
    except (OSError, ValueError) as cause:  # the latter of what can be no path
        reason = getattr(cause, "strerror", None) or cause
        raise InvalidRequest(
            f"cannot read {path}: {reason}", hint="name a file that this user can read"
        ) from cause


def warn_of_readers(paths: Iterable[Path]) -> None:
    """Log which of these files every user of this machine may read."""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):  # who reads it says so
            if path.stat().st_mode & stat.S_IROTH:
                log.warning("%s can be read by every user: `chmod 600` it", path)
