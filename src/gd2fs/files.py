"""Files: what the calls on files do, as steps (see ``completion``) over the native client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gd2fs.answers import FileStat, Listing
from gd2fs.argument import UINT32_MAX, list_limit, name_bytes, name_text, seconds, whole
from gd2fs.completion import Deadline, Start, Steps
from gd2fs.errors import InvalidRequest, Unavailable
from gd2fs.outcome import Status, check, error_of

if TYPE_CHECKING:
    from gd2fs import _core
    from gd2fs.buffers import Sources, Targets

PUT_TRIES = 8  # how often another writer may come between the unlink and the create of a put
GET_TRIES = 4  # how often a file may grow between the stat and the read of a get


class FileSteps:
    """The calls on files; each method documented at ``Client``'s method of that name."""

    def __init__(self, core: _core.Client) -> None:
        self._core = core

    def create(
        self,
        path: str,
        chunk_bytes: int | None,
        ttl_s: int | None,
        if_absent: bool,
        deadline: Deadline,
    ) -> Steps[FileStat]:
        call = yield self._start_create(path, chunk_bytes, ttl_s, if_absent, deadline)
        if call.status == Status.CONFLICT:
            raise InvalidRequest(f"create {path}: it is there already", hint="unlink it first")
        check(call, f"create {path}")
        # The answer to a create tells no time to live; what was there may have another one.
        return (yield from self.stat(path, deadline)) or FileStat(*call.file)

    def write(
        self,
        path: str,
        offset: int,
        buffers: Sources,
        deadline: Deadline,
        if_generation: int | None = None,
    ) -> Steps[int]:
        offset = whole("offset", offset)
        call = yield partial(
            self._core.write,
            name_bytes(path),
            offset,
            buffers,
            if_generation=if_generation or 0,
            timeout_ms=deadline.left_ms(),
        )
        _check_there(call, f"write {path}")
        return call.value

    def append(self, path: str, buffers: Sources, deadline: Deadline) -> Steps[int]:
        call = yield partial(
            self._core.append, name_bytes(path), buffers, timeout_ms=deadline.left_ms()
        )
        _check_there(call, f"append to {path}")
        return call.value

    def read(self, path: str, offset: int, into: Targets, deadline: Deadline) -> Steps[int | None]:
        offset = whole("offset", offset)
        call = yield partial(
            self._core.read, name_bytes(path), offset, into, timeout_ms=deadline.left_ms()
        )
        answers = (Status.OK, Status.MISS, Status.GONE, Status.CORRUPT)
        return call.value if check(call, f"read {path}", answers) is Status.OK else None

    def put(
        self,
        path: str,
        buffers: Sources,
        chunk_bytes: int | None,
        ttl_s: int | None,
        deadline: Deadline,
    ) -> Steps[int]:
        # The write goes into the generation just created or nowhere, so bytes of two puts never
        # meet. Losing the place after the create is the same as being done just before.
        for _ in range(PUT_TRIES):
            yield from self.unlink(path, deadline)
            call = yield self._start_create(path, chunk_bytes, ttl_s, True, deadline)
            if call.status == Status.CONFLICT:
                continue
            check(call, f"put {path}")
            return (yield from self._fill(path, buffers, FileStat(*call.file), deadline))
        raise Unavailable(f"put {path}: other writers were first {PUT_TRIES} times", hint="retry")

    def get(self, path: str, deadline: Deadline) -> Steps[bytearray | None]:
        for _ in range(GET_TRIES):
            file = yield from self.stat(path, deadline)
            if file is None:
                return None
            # One byte more than there was: a short read is the whole file of one moment.
            content = bytearray(file.size + 1)
            count = yield from self.read(path, 0, content, deadline)
            if count is None:
                return None
            if count <= file.size:
                del content[count:]
                return content
        return None

    def stat(self, path: str, deadline: Deadline) -> Steps[FileStat | None]:
        call = yield partial(self._core.stat, name_bytes(path), timeout_ms=deadline.left_ms())
        status = check(call, f"stat {path}", (Status.OK, Status.GONE, Status.MISS))
        return FileStat(*call.file) if status is Status.OK else None

    def truncate(self, path: str, size: int, deadline: Deadline) -> Steps[None]:
        size = whole("size", size)
        call = yield partial(
            self._core.truncate, name_bytes(path), size, timeout_ms=deadline.left_ms()
        )
        _check_there(call, f"truncate {path} to {size} bytes")

    def unlink(self, path: str, deadline: Deadline) -> Steps[bool]:
        call = yield partial(self._core.unlink, name_bytes(path), timeout_ms=deadline.left_ms())
        status = check(call, f"unlink {path}", (Status.OK, Status.GONE, Status.MISS))
        return status is Status.OK

    def list(self, prefix: str, after: str, limit: int, deadline: Deadline) -> Steps[Listing[str]]:
        call = yield partial(
            self._core.list_files,
            name_bytes(prefix),
            after=name_bytes(after),
            count_max=list_limit(limit),
            timeout_ms=deadline.left_ms(),
        )
        check(call, f"list {prefix}")
        entries = [(name_text(name), size) for name, size in call.entries]
        return Listing(entries, name_text(call.next) or None, call.is_partial)

    def _start_create(
        self,
        path: str,
        chunk_bytes: int | None,
        ttl_s: int | None,
        if_absent: bool,
        deadline: Deadline,
    ) -> Start:
        return partial(
            self._core.create,
            name_bytes(path),
            chunk_bytes=whole("chunk_bytes", chunk_bytes or 0, UINT32_MAX),
            ttl_s=seconds(ttl_s),
            is_if_absent=if_absent,
            timeout_ms=deadline.left_ms(),
        )

    def _fill(self, path: str, buffers: Sources, file: FileStat, deadline: Deadline) -> Steps[int]:
        call = yield partial(
            self._core.write,
            name_bytes(path),
            0,
            buffers,
            if_generation=file.generation,
            timeout_ms=deadline.left_ms(),
        )
        if call.status in (Status.OK, Status.GONE):
            return call.buffer_bytes
        failure = error_of(Status(call.status), call.message or f"put {path}: not stored")
        # What stands there now is empty, and nobody asked for that.
        yield partial(self._core.unlink, name_bytes(path), timeout_ms=deadline.left_ms())
        raise failure


def _check_there(call: _core.Call, what: str) -> None:
    if call.status == Status.GONE:
        raise InvalidRequest(f"{what}: no such file", hint="create it first")
    check(call, what)
