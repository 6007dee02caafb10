"""Access: what a side shows to nodes, and whom it takes for one: a token, and the files of TLS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gd2fs.tls import NO_TLS, Tls
from gd2fs.tokens import Token, parse_token


@dataclass(frozen=True, slots=True)
class Access:
    """Of a client, or of a node that asks others.

    Attributes:
        token: What it shows to nodes; nobody's text has its secret.
        token_file: Instead of it, a file whose first token is shown, as it is at each connection.
        tls: Of streams over TCP.
    """

    token: Token | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: Tls = NO_TLS

    def native(self) -> dict[str, Any]:
        """As the native client takes it."""
        return {
            "token": self.token.as_text() if self.token else "",
            "token_file": self.token_file or "",
            "tls": self.tls.native(),
        }


def token_of(
    given: Token | str | None,
    file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> tuple[Token | None, str | None]:
    """A token, or the file that has it: as given, else ``GD2FS_TOKEN_FILE``, else ``GD2FS_TOKEN``.

    Raises:
        InvalidRequest: What is given is no token.
    """
    if file:
        return None, os.fspath(file)
    if given is not None:
        return (parse_token(given) if isinstance(given, str) and given else given or None), None
    if path := environment.get("GD2FS_TOKEN_FILE"):
        return None, path
    text = environment.get("GD2FS_TOKEN", "")
    return (parse_token(text, "`GD2FS_TOKEN`") if text else None), None


def tls_of(
    cert: str | None = None,
    key: str | None = None,
    ca: str | None = None,
    name: str | None = None,
    clients: str = "any",
    *,
    environment: Mapping[str, str] = os.environ,
) -> Tls:
    """Fill what is not given from ``GD2FS_TLS_CERT``, ``GD2FS_TLS_KEY``, ``GD2FS_TLS_CA`` and
    ``GD2FS_TLS_NAME``. Raises InvalidRequest."""

    def word(given: str | None, variable: str) -> str:
        return environment.get(variable, "") if given is None else given

    return Tls(
        word(cert, "GD2FS_TLS_CERT"),
        word(key, "GD2FS_TLS_KEY"),
        word(ca, "GD2FS_TLS_CA"),
        word(name, "GD2FS_TLS_NAME"),
        clients,
    )
