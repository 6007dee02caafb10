"""Files: what the calls on files do, as steps (see ``completion``) over the native client."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gd2fs import _core
from gd2fs.answers import FileStat, Listing
from gd2fs.argument import (
    chunk_size,
    copies,
    generation_of,
    list_limit,
    name_bytes,
    name_text,
    prefix_bytes,
    seconds,
    whole,
)
from gd2fs.buffers import new_buffer, views_of
from gd2fs.completion import Deadline, Start, Steps
from gd2fs.errors import InvalidRequest
from gd2fs.marks import NONE, Marks
from gd2fs.outcome import KEPT_AT, SYNC_ANSWERS, Status, check
from gd2fs.readahead import Readahead

if TYPE_CHECKING:
    from gd2fs.buffers import Sources, Targets

ADVICE = ("willneed", "dontneed")
GET_TRIES = 4  # how often a file may grow between the stat and the read of a get


class FileSteps:
    """The calls on files; each method documented at ``Client``'s method of that name."""

    def __init__(self, core: _core.Client) -> None:
        self._core = core
        self.readahead = Readahead(core)

    def create(
        self,
        path: str,
        chunk_bytes: int | None,
        ttl_s: int | None,
        if_absent: bool,
        deadline: Deadline,
        replicas: int | None = None,
    ) -> Steps[FileStat]:
        call = yield self._start_create(path, chunk_bytes, ttl_s, if_absent, deadline, replicas)
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
        marks: Marks = NONE,
    ) -> Steps[int]:
        offset = whole("offset", offset)
        call = yield partial(
            self._core.write,
            name_bytes(path),
            offset,
            buffers,
            if_generation=generation_of(if_generation),
            **marks.as_arguments(),
            timeout_ms=deadline.left_ms(),
        )
        _check_there(call, f"write {path}")
        return call.value

    def append(
        self, path: str, buffers: Sources, deadline: Deadline, marks: Marks = NONE
    ) -> Steps[int]:
        call = yield partial(
            self._core.append,
            name_bytes(path),
            buffers,
            **marks.as_arguments(),
            timeout_ms=deadline.left_ms(),
        )
        if call.status in (Status.INVALID, Status.FULL):
            yield from self._check_end(path, call.buffer_bytes, deadline)
        _check_there(call, f"append to {path}")
        return call.value

    def read(self, path: str, offset: int, into: Targets, deadline: Deadline) -> Steps[int | None]:
        offset = whole("offset", offset)
        call = yield self._start_read(path, offset, into, deadline)
        if call.status == Status.INVALID and offset + call.buffer_bytes > _core.FILE_BYTES_MAX:
            # No file has bytes there: what is asked for of it ends where any file does.
            call = yield self._start_read(path, *_clip(offset, into), deadline)
        answers = (Status.OK, Status.MISS, Status.GONE, Status.CORRUPT)
        if check(call, f"read {path}", answers) is not Status.OK:
            return None
        self.readahead.note(path, offset + call.value)
        return call.value

    def put(
        self,
        path: str,
        buffers: Sources,
        chunk_bytes: int | None,
        ttl_s: int | None,
        deadline: Deadline,
        replicas: int | None = None,
        marks: Marks = NONE,
    ) -> Steps[int]:
        call = yield partial(
            self._core.put,
            name_bytes(path),
            buffers,
            chunk_bytes=chunk_size(chunk_bytes),
            ttl_s=seconds(ttl_s),
            replicas=copies(replicas),
            **marks.as_arguments(),
            timeout_ms=deadline.left_ms(),
        )
        check(call, f"put {path}")
        return call.value

    def get(self, path: str, deadline: Deadline) -> Steps[bytearray | None]:
        for _ in range(GET_TRIES):
            file = yield from self.stat(path, deadline)
            if file is None:
                return None
            # One byte more than there was: a short read is the whole file of one moment.
            content = new_buffer(f"get {path}", file.size + 1)
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
        size = whole("size", size, _core.FILE_BYTES_MAX)
        call = yield partial(
            self._core.truncate, name_bytes(path), size, timeout_ms=deadline.left_ms()
        )
        if call.status == Status.INVALID:
            file = yield from self.stat(path, deadline)
            if file is not None and file.size < size:
                raise InvalidRequest(
                    f"truncate {path} to {size} bytes: it has {file.size}",
                    hint="it can only shrink; write at or past its end to make it longer",
                )
        _check_there(call, f"truncate {path} to {size} bytes")

    def unlink(self, path: str, deadline: Deadline) -> Steps[bool]:
        call = yield partial(self._core.unlink, name_bytes(path), timeout_ms=deadline.left_ms())
        status = check(call, f"unlink {path}", (Status.OK, Status.GONE, Status.MISS))
        return status is Status.OK

    def sync(self, path: str, deadline: Deadline) -> Steps[str]:
        call = yield partial(self._core.sync_file, name_bytes(path), timeout_ms=deadline.left_ms())
        status = check(call, f"sync {path}", SYNC_ANSWERS)
        return KEPT_AT[call.value] if status is Status.OK else ""

    def advise(
        self, path: str, advice: str, replicas: int | None, deadline: Deadline
    ) -> Steps[int | None]:
        if advice not in ADVICE:
            raise InvalidRequest(f"no advice {advice!r}", hint="willneed or dontneed")
        call = yield partial(
            self._core.advise,
            name_bytes(path),
            advice == "willneed",
            copies(replicas),
            timeout_ms=deadline.left_ms(),
        )
        answers = (Status.OK, Status.MISS, Status.GONE)
        status = check(call, f"advise {advice} of {path}", answers)
        return call.value if status is Status.OK else None

    def list(self, prefix: str, after: str, limit: int, deadline: Deadline) -> Steps[Listing[str]]:
        call = yield partial(
            self._core.list_files,
            prefix_bytes(prefix),
            after=name_bytes(after),
            count_max=list_limit(limit),
            timeout_ms=deadline.left_ms(),
        )
        check(call, f"list {prefix}")
        entries = [(name_text(name), size) for name, size in call.entries]
        return Listing(entries, name_text(call.next) or None, call.is_partial)

    def _start_read(self, path: str, offset: int, into: Targets, deadline: Deadline) -> Start:
        return partial(
            self._core.read, name_bytes(path), offset, into, timeout_ms=deadline.left_ms()
        )

    def _check_end(self, path: str, count: int, deadline: Deadline) -> Steps[None]:
        """Raise when ``count`` more bytes would make the file longer than any can be."""
        file = yield from self.stat(path, deadline)
        if file is not None and file.size + count > _core.FILE_BYTES_MAX:
            raise InvalidRequest(
                f"append {count} bytes to {path}, which has {file.size}: "
                f"a file has at most {_core.FILE_BYTES_MAX}",
                hint="go on in another file",
            )

    def _start_create(
        self,
        path: str,
        chunk_bytes: int | None,
        ttl_s: int | None,
        if_absent: bool,
        deadline: Deadline,
        replicas: int | None,
    ) -> Start:
        return partial(
            self._core.create,
            name_bytes(path),
            chunk_bytes=chunk_size(chunk_bytes),
            ttl_s=seconds(ttl_s),
            replicas=copies(replicas),
            is_if_absent=if_absent,
            timeout_ms=deadline.left_ms(),
        )


def _clip(offset: int, into: Targets) -> tuple[int, list[memoryview]]:
    """The part of ``into`` that lies within the longest file."""
    offset = min(offset, _core.FILE_BYTES_MAX)
    left = _core.FILE_BYTES_MAX - offset
    views = []
    for view in views_of(into):
        views.append(view[:left])
        left -= len(views[-1])
    return offset, views


def _check_there(call: _core.Call, what: str) -> None:
    if call.status == Status.GONE:
        raise InvalidRequest(f"{what}: no such file", hint="create it first")
    check(call, what)
