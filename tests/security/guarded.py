"""Who there is in these tests: a cluster's token, and tenants of namespaces `a` and `b`."""

from __future__ import annotations

from dataclasses import dataclass

from gd2fs.tokens import CLUSTER, KnownToken, Token, new_token


@dataclass(frozen=True)
class Holder:
    """A token, and what its holder may do where (nowhere: in every namespace)."""

    token: Token
    right: str
    namespaces: tuple[str, ...] = ()

    @property
    def known(self) -> KnownToken:
        return KnownToken(self.token.name, self.token.key, self.right, self.namespaces)


def holder(name: str, right: str, *namespaces: str) -> Holder:
    return Holder(new_token(name), right, namespaces)


MAIN = holder("main", CLUSTER)
A_READER = holder("a-reader", "read", "a")
A_WRITER = holder("a-writer", "write", "a")
A_ADMIN = holder("a-admin", "admin", "a")
B_ADMIN = holder("b-admin", "admin", "b")
WATCHER = holder("watcher", "read")
TENANTS = (A_READER, A_WRITER, A_ADMIN, B_ADMIN, WATCHER)


def known(*holders: Holder) -> list[tuple[str, bytes, str, list[str]]]:
    """As the native server takes them."""
    return [each.known.as_core() for each in holders]
