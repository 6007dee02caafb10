"""Outputs: files that a command shall write are looked at before its long work begins.

None may be a file that the command reads, or that it writes something else to.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gd2fs.errors import InvalidRequest

STDOUT = Path("-")
OTHER = "name a file that can be written"


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path]) -> None:
    """See that every output can be written, and is a file of its own.

    Args:
        outputs: By option, without its dashes; None and ``-`` are no files.
        inputs: Files that are read, by what they are.

    Raises:
        InvalidRequest: One is another output or an input, or it cannot be written.
    """
    taken = dict(inputs)
    for option, path in outputs.items():
        if path is None or path == STDOUT:
            continue
        for owner, other in taken.items():
            if _is_same(path, other):
                raise InvalidRequest(
                    f"`--{option}` is {path}, and so is {owner}", hint="name another file"
                )
        _check_writable(path)
        taken[f"`--{option}`"] = path


def check_folder(folder: Path) -> None:
    """See that ``folder`` is there and can be written to, or can be made.

    Raises:
        InvalidRequest: It is not so.
    """
    there = Path(os.path.realpath(folder))
    while not there.exists() and there != there.parent:
        there = there.parent
    with writing(folder):
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there} is no folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"no permission for {there}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let an error of the system name ``path``, and what to do. Raises InvalidRequest."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise InvalidRequest(
            f"cannot write {path}: {error.strerror or error}",
            hint="make room, or name another file" if is_full else OTHER,
        ) from error


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """Write them as JSON that people can read, too. Raises InvalidRequest."""
    with writing(path):
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _is_same(path: Path, other: Path) -> bool:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False  # a device, as /dev/null, takes anything
        return path.samefile(other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(path) == os.path.realpath(other)


def _check_writable(path: Path) -> None:
    with writing(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            folder = Path(os.path.realpath(path)).parent
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOENT, f"no folder {folder}") from None
            is_writable = os.access(folder, os.W_OK | os.X_OK)
        else:
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            is_writable = os.access(path, os.W_OK)
        if not is_writable:
            raise PermissionError(errno.EACCES, "no permission")
