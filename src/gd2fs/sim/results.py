"""Results: a file of JSON lines that one sweep at a time adds to.

Its first line says of which trace and setting all others are variations. A line that was broken
off is written again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gd2fs.errors import InvalidRequest
from gd2fs.outputs import writing

OTHER = "name another file, or remove it"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # of a file system that has none


class Results:
    """An opened file of results.

    Attributes:
        known: Those that it had, in their order.
    """

    def __init__(
        self, path: Path, file: BinaryIO, known: list[dict[str, Any]], first: bytes
    ) -> None:
        """``first`` goes before what is added first: a sweep that fails at once says nothing."""
        self._path, self._file, self._first = path, file, first
        self.known = known

    def add(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Write one line at once; what it will be when it is read again. Raises InvalidRequest."""
        line = json.dumps(figures)
        with writing(self._path):
            left = memoryview(self._first + line.encode() + b"\n")
            while left:
                left = left[self._file.write(left) :]
        self._first = b""
        again: dict[str, Any] = json.loads(line)
        return again


@contextmanager
def opened_results(path: Path, identity: Mapping[str, Any]) -> Iterator[Results]:
    """Open a file, or make it, and keep others from it until the end.

    Args:
        path: Of the file.
        identity: What its first line says.

    Raises:
        InvalidRequest: Another sweep has it, it has other results, or lines that are none.
    """
    with writing(path):
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise InvalidRequest(
                f"{path} is no plain file", hint="results are read again: " + OTHER
            )
        file = path.open("a+b", buffering=0)
    with file:
        _lock(path, file)
        file.seek(0)
        content = file.read()
        first = json.dumps(identity).encode() + b"\n"
        whole, newline, rest = content.rpartition(b"\n")
        if not newline and not first.startswith(rest):
            raise _of_others(path)
        known = _known(path, whole.split(b"\n"), identity) if newline else []
        if rest:
            os.ftruncate(file.fileno(), len(content) - len(rest))
        yield Results(path, file, known, b"" if newline else first)


def _lock(path: Path, file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InvalidRequest(
            f"another sweep writes to {path}", hint="wait for its end, or name another file"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise InvalidRequest(f"cannot lock {path}: {error.strerror}", hint=OTHER) from error


def _known(path: Path, lines: list[bytes], identity: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if number == 1:
            if value != json.loads(json.dumps(identity)):
                raise _of_others(path)
        elif not _is_result(value, identity):
            raise InvalidRequest(
                f"{path}:{number} is no result of a sweep", hint="remove the line, or the file"
            )
        else:
            found.append(value)
    return found


def _is_result(value: Any, identity: Mapping[str, Any]) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("block_hit_rate"), int | float):
        return False
    setting = value.get("setting")
    has_setting = isinstance(setting, dict) and setting.keys() == dict(identity["base"]).keys()
    return has_setting and isinstance(value.get("trace"), dict) and "topology" in value


def _of_others(path: Path) -> InvalidRequest:
    return InvalidRequest(f"{path} has no results of this trace and setting", hint=OTHER)
