"""Replicas: of how many nodes a thing has a copy, for each namespace."""

from __future__ import annotations

from dataclasses import dataclass

from gd2fs.errors import InvalidRequest

REPLICAS_MAX = 8  # as core/limits.h says
NAMESPACES_MAX = 1024  # with a number of their own
NAMESPACE_BYTES_MAX = 255

_SYNTAX = "write `--replicas 2`, or `--replicas 2,NAMESPACE=3`"


@dataclass(frozen=True, slots=True)
class Replicas:
    """Copies of what lies in every namespace: ``default``, and the exceptions by name.

    Attributes:
        default: 1 to ``REPLICAS_MAX``.
        namespaces: (name, copies), in the order of the names.
    """

    default: int = 1
    namespaces: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        check_copies(self.default)
        if len(self.namespaces) > NAMESPACES_MAX:
            raise InvalidRequest(
                f"{len(self.namespaces)} namespaces with replicas of their own",
                hint=f"{NAMESPACES_MAX} at most; change the default instead",
            )
        for name, copies in self.namespaces:
            check_namespace(name)
            check_copies(copies)
        object.__setattr__(self, "namespaces", tuple(sorted(dict(self.namespaces).items())))

    def __str__(self) -> str:
        return ",".join([str(self.default), *(f"{name}={n}" for name, n in self.namespaces)])

    def of(self, namespace: str) -> int:
        """Copies of what lies in ``namespace``."""
        return dict(self.namespaces).get(namespace, self.default)

    def with_namespace(self, name: str, copies: int) -> Replicas:
        """The same but for one namespace."""
        return Replicas(self.default, (*self.namespaces, (name, copies)))


def parse_replicas(text: str) -> Replicas:
    """Read ``2`` or ``2,kv=3,other=1``.

    Raises:
        InvalidRequest: Broken syntax, a namespace twice, or a number out of range.
    """
    default, *rest = (part.strip() for part in text.split(","))
    namespaces = [_parse_exception(part) for part in rest]
    if len(dict(namespaces)) != len(namespaces):
        raise InvalidRequest(f"`{text}` names a namespace twice", hint=_SYNTAX)
    return Replicas(_number(default), tuple(namespaces))


def check_copies(copies: int) -> int:
    """Return ``copies`` when so many nodes can have one each. Raises InvalidRequest."""
    if not 1 <= copies <= REPLICAS_MAX:
        raise InvalidRequest(f"{copies} replicas", hint=f"1 to {REPLICAS_MAX}")
    return copies


def check_namespace(name: str) -> str:
    """Return ``name`` when it can be a path's first component. Raises InvalidRequest."""
    is_plain = name.isprintable() and not set(name) & set("/,=") and name not in (".", "..")
    if not name or not is_plain or len(name.encode()) > NAMESPACE_BYTES_MAX:
        raise InvalidRequest(f"`{name}` is no namespace", hint="it is a path's first component")
    return name


def _parse_exception(part: str) -> tuple[str, int]:
    name, equals, copies = part.rpartition("=")
    if not equals:
        raise InvalidRequest(f"`{part}` is not NAMESPACE=N", hint=_SYNTAX)
    return name, _number(copies)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequest(f"`{text}` is no number of replicas", hint=_SYNTAX)
    return int(text)


ONE_COPY = Replicas()
