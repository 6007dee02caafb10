"""Token watch: the tokens of a running node, read again whenever their files have changed.

Files that are wrong, or half-written, change nothing: what was valid stays valid, and one line in
the log says why. Streams of a token that is gone are closed by the native server.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.tokens import (
    CLUSTER,
    KnownToken,
    Token,
    check_all,
    cluster_tokens,
    files_of,
    read_tenants,
    read_token_file,
    warn_of_readers,
)

LOOK_S = 1.0  # between two looks at the files

log = logging.getLogger(__name__)

_Seen = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class TokenPlaces:
    """Where a node's tokens come from. Nowhere: it has none, and asks for none.

    Attributes:
        token_file: One or two tokens of the cluster.
        token: Instead of it, one from the environment.
        tenants: TOML of the others.
    """

    token_file: Path | None = None
    token: Token | None = None
    tenants: Path | None = None

    @property
    def is_open(self) -> bool:
        """No token is named."""
        return self.token_file is None and self.token is None

    def read(self) -> tuple[KnownToken, ...]:
        """All of them, those of the cluster first. Raises InvalidRequest."""
        warn_of_readers(self._files())
        own: tuple[Token, ...] = (self.token,) if self.token else ()
        if self.token_file is not None:
            own = read_token_file(self.token_file)
        tenants = read_tenants(self.tenants) if self.tenants is not None else ()
        if tenants and not own:
            raise InvalidRequest(
                "there are tenants, and no token of the cluster",
                hint="nodes need one of their own: pass `--token-file FILE`",
            )
        return check_all((*cluster_tokens(own), *tenants))

    def seen(self) -> _Seen:
        """What tells one state of the files from another."""
        return tuple(_stamp(file) for file in self._files())

    def _files(self) -> tuple[Path, ...]:
        own = (self.token_file,) if self.token_file is not None else ()
        return (*own, *files_of(self.tenants))


class TokenWatch:
    """Looks at the files once a second, or as soon as it is told, until ``stop``."""

    def __init__(
        self, places: TokenPlaces, first: _Seen, apply: Callable[[Sequence[KnownToken]], None]
    ) -> None:
        """``first``: the state of the files that was applied already."""
        self._places = places
        self._apply = apply
        self._seen = first
        self._wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="gd2fs-tokens", daemon=True)
        self._thread.start()

    def look_now(self) -> None:
        """Read the files, changed or not. From any thread, and from a handler of signals."""
        self._seen = ()
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait(LOOK_S)
            self._wake.clear()
            if self._is_stopping:
                return
            try:
                self._look()
            except Exception:  # the thread's top: the next change must be seen all the same
                log.exception("tokens stay as they were: they could not be looked at")

    def _look(self) -> None:
        seen = self._places.seen()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            known = self._places.read()
            self._apply(known)
        except GD2FSError as error:
            log.error("tokens stay as they were: %s [%s]", error, error.hint)
        else:
            log.info("%s", tokens_line(known))


def tokens_line(known: Sequence[KnownToken]) -> str:
    """Which tokens are valid, by their names."""
    own = [each.name for each in known if each.right == CLUSTER]
    tenants = [each.name for each in known if each.right != CLUSTER]
    line = f"tokens of the cluster: {', '.join(own) or 'none'}"
    return f"{line}; of tenants: {len(tenants)}" if tenants else line


def _stamp(file: Path) -> object:
    try:
        facts = file.stat()
    except (OSError, ValueError) as error:  # the latter of what can be no path
        return str(file), str(error)
    return str(file), facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
