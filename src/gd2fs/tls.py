"""TLS: the files that streams and the admin side are secured with, and what is made of them.

The native core reads them for streams, and again when they change; here they are checked, and the
admin side gets its context.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, replace
from typing import Any

from gd2fs.errors import InvalidRequest

CLIENTS = ("any", "required")
SYSTEM = "system"  # in place of a file: whom the system trusts


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files, and whose certificates are taken. Empty texts: not given. Nothing given: no TLS.

    Attributes:
        cert: Own certificate, leaf first, with what it is signed by.
        key: Its key, without a passphrase.
        ca: Who signs what others show, or ``system``.
        name: One more name that nodes' certificates may have, besides their addresses and names.
        clients: Of a node: ``required`` when nobody is talked to without a certificate.
    """

    cert: str = ""
    key: str = ""
    ca: str = ""
    name: str = ""
    clients: str = "any"

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            raise InvalidRequest(
                "`--tls-cert` and `--tls-key` belong together", hint="give both, or neither"
            )
        if self.clients not in CLIENTS:
            raise InvalidRequest(
                f"`--tls-clients` is `{self.clients}`", hint=f"one of {', '.join(CLIENTS)}"
            )
        for path in (self.cert, self.key, self.ca):
            if path and path != SYSTEM and not os.access(path, os.R_OK):
                raise InvalidRequest(f"cannot read {path}", hint="name a PEM file that is there")

    @property
    def is_on(self) -> bool:
        return bool(self.cert or self.ca)

    def check_node(self) -> Tls:
        """Return this when a node can use it. Raises InvalidRequest."""
        if (self.ca or self.name or self.clients != "any") and not self.cert:
            raise InvalidRequest(
                "a node needs a certificate for TLS", hint="give `--tls-cert` and `--tls-key`"
            )
        if self.clients == "required" and not self.ca:
            raise InvalidRequest(
                "`--tls-clients required`, and nobody says who signs them",
                hint="give `--tls-ca FILE`",
            )
        return self

    def check_client(self) -> Tls:
        """Return this when a client can use it. Raises InvalidRequest."""
        if (self.cert or self.name) and not self.ca:
            raise InvalidRequest(
                "`--tls-ca` is missing: without it there is no TLS",
                hint=f"name the file of who signs the nodes' certificates, or `{SYSTEM}`",
            )
        return self

    def as_client(self, name: str = "") -> Tls:
        """As a node's own clients use it. ``name``: taken for one of nodes where none is given."""
        if not self.is_on:
            return NO_TLS
        return replace(self, ca=self.ca or SYSTEM, name=self.name or name, clients="any")

    def native(self) -> dict[str, Any]:
        """As the native client and server take it."""
        words = {"cert": self.cert, "key": self.key, "ca": self.ca, "name": self.name}
        required = {"are_clients_required": True} if self.clients == "required" else {}
        return {key: text for key, text in words.items() if text} | required


NO_TLS = Tls()


class AdminContext:
    """The context of HTTPS: of the files as they are when a connection begins."""

    def __init__(self, tls: Tls) -> None:
        """Read the files. Raises InvalidRequest."""
        self._tls = tls
        self._seen = self._signature()
        try:
            self.context = self._load()
        except (OSError, ssl.SSLError) as cause:
            raise InvalidRequest(
                f"cannot use {tls.cert} and {tls.key}: {cause}",
                hint="name the two PEM files of one certificate",
            ) from cause
        self._current = self.context
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Called for every connection, whether it names somebody or not."""
        seen = self._signature()
        if seen != self._seen:
            try:
                self._current = self._load()
                self._seen = seen
            except (OSError, ssl.SSLError):
                return  # half written: the former one goes on, and the next connection looks again
        connection.context = self._current

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(self._tls.cert, self._tls.key, password=_no_passphrase)
        return context

    def _signature(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_file_signature(path) for path in (self._tls.cert, self._tls.key))


def _no_passphrase() -> bytes:
    return b""  # nobody is there to be asked


def _file_signature(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
