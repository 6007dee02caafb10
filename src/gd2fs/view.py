"""View: bytes of the cache that are read where they lie, until they are released."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from gd2fs import _core
from gd2fs.argument import name_bytes, whole
from gd2fs.completion import Deadline, Steps
from gd2fs.errors import Closed
from gd2fs.fork import close_in_children, leak
from gd2fs.outcome import Status, check

if TYPE_CHECKING:
    from gd2fs.pages import Key


class View:
    """Read-only bytes of a page, or of a range of a file. A context manager; thread-safe.

    The bytes never change, and stay readable when the client is closed and when the node ends.
    While views are held the node cannot use their memory for anything else: release them soon.
    In a forked child a view is Closed, and a buffer of it that is read there ends the child.

    Attributes:
        size: Bytes in all.
        is_copy: ``memory`` is a copy: these bytes lie in several places, or on another host.
    """

    def __init__(self, core: _core.View) -> None:
        self._core: _core.View | None = core
        self._parts: tuple[memoryview, ...] | None = None
        self._joined: bytes | None = None
        self.size = core.bytes
        self.is_copy = core.is_copy or len(core.parts()) != 1
        close_in_children(self)

    def __repr__(self) -> str:
        return f"<View of {self.size} bytes{', a copy' if self.is_copy else ''}>"

    def __len__(self) -> int:
        return self.size

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @property
    def parts(self) -> tuple[memoryview, ...]:
        """The bytes in order, one read-only buffer for each place where they lie. Never a copy
        of what the node shares. They end with the view. Raises Closed once it is released."""
        core = self._open()
        if self._parts is None:
            self._parts = tuple(memoryview(part) for part in core.parts())
        return self._parts

    @property
    def memory(self) -> memoryview:
        """All bytes as one read-only buffer. Raises Closed once it is released."""
        if len(self.parts) == 1:
            return self.parts[0]
        if self._joined is None:
            self._joined = b"".join(self.parts)
        return memoryview(self._joined)

    def release(self) -> None:
        """Give the memory back, and end the buffers that ``parts`` and ``memory`` gave: what
        uses them afterwards gets ValueError. Twice is fine.

        Raises:
            BufferError: Something made of those buffers is still in use: an array, a slice. The
                view stays as it is; release it again when that is gone.
        """
        if self._core is None:
            return
        parts, self._parts = self._parts, None
        for part in parts or ():
            with suppress(BufferError):  # then the next line refuses
                part.release()
        self._core.release()
        self._joined = None

    def forget_parent(self) -> None:
        """In a forked child: it is closed, and the parent's stays as it is."""
        leak(self._core)
        self._core = None

    def _open(self) -> _core.View:
        if self._core is None:
            raise Closed("the view was made before fork", hint="make one in the child")
        return self._core


def view_page(
    core: _core.Client, namespace: str, key: Key, verify: bool, deadline: Deadline
) -> Steps[View | None]:
    """The steps of ``Client.view``."""
    call = yield partial(
        core.view_page,
        name_bytes(namespace),
        key,
        is_verifying=verify,
        timeout_ms=deadline.left_ms(),
    )
    return _view_of(call, f"view a page of namespace {namespace}")


def view_file(
    core: _core.Client,
    path: str,
    offset: int,
    size: int | None,
    verify: bool,
    deadline: Deadline,
) -> Steps[View | None]:
    """The steps of ``Client.view_file``."""
    offset = whole("offset", offset)
    call = yield partial(
        core.view_file,
        name_bytes(path),
        offset,
        _core.FILE_BYTES_MAX if size is None else whole("size", size),
        is_verifying=verify,
        timeout_ms=deadline.left_ms(),
    )
    return _view_of(call, f"view {path}")


def _view_of(call: _core.Call, what: str) -> View | None:
    answers = (Status.OK, Status.MISS, Status.GONE, Status.CORRUPT)
    is_there = check(call, what, answers) is Status.OK
    core = call.view if is_there else None
    return None if core is None else View(core)
