"""Probes: what no file tells and has to be tried: system calls, file systems, libraries."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gd2fs.ucx import Ucx, load_ucx

IO_URING_SETUP = 425  # the same number on every architecture that Linux has got since 5.1
IO_URING_PARAMS_BYTES = 120
DIRECT_BYTES = 4096
TIMEX_BYTES = 256  # larger than struct timex
TIMEX_STATUS_AT = 40  # on 64 bits: modes, padding, offset, freq, maxerror, esterror before it
UNSYNCHRONISED = 0x40  # STA_UNSYNC


@dataclass(frozen=True, slots=True)
class Room:
    """Of a file system, bytes."""

    size_bytes: int
    free_bytes: int


class Probes:
    """Of the machine that this runs on. Each leaves everything as it was."""

    def io_uring_fault(self) -> str:
        """Why io_uring cannot be used; empty when it can."""
        libc = ctypes.CDLL(None, use_errno=True)
        parameters = ctypes.create_string_buffer(IO_URING_PARAMS_BYTES)
        ring = libc.syscall(IO_URING_SETUP, 1, parameters)
        if ring < 0:
            return os.strerror(ctypes.get_errno()).lower()
        os.close(ring)
        return ""

    def direct_fault(self, folder: str) -> str:
        """Why files there cannot be written past the page cache; empty when they can."""
        try:
            descriptor, path = tempfile.mkstemp(prefix=".gd2fs-doctor-", dir=folder)
        except OSError as error:
            return _words(error)
        try:
            os.close(descriptor)
            return _direct_write_fault(path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def room(self, path: str) -> Room | None:
        """Of the file system at ``path``, for this user; None when it cannot be had."""
        try:
            system = os.statvfs(path)
        except OSError:
            return None
        return Room(system.f_blocks * system.f_frsize, system.f_bavail * system.f_frsize)

    def is_clock_synchronised(self) -> bool | None:
        """Whether somebody keeps this machine's clock right; None: not known."""
        libc = ctypes.CDLL(None, use_errno=True)
        timex = ctypes.create_string_buffer(TIMEX_BYTES)
        if ctypes.sizeof(ctypes.c_void_p) != 8 or libc.adjtimex(timex) < 0:
            return None
        status = int.from_bytes(timex.raw[TIMEX_STATUS_AT : TIMEX_STATUS_AT + 4], "little")
        return not status & UNSYNCHRONISED

    def ucx(self, setting: str, cards: Path) -> Ucx:
        """The libucp that a node of this ``--ucx`` loads; it stays loaded. Raises GD2FSError."""
        return load_ucx(setting, cards=cards)

    def package(self, name: str) -> str:
        """Version of a Python package of this environment; empty without one."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version(name)
        except PackageNotFoundError:
            return ""

    def user(self) -> int:
        """Number of the user that this runs as."""
        return os.geteuid()


def _direct_write_fault(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
    except OSError as error:
        return _words(error)
    try:
        with mmap.mmap(-1, DIRECT_BYTES) as aligned:
            os.write(descriptor, aligned)
        return ""
    except OSError as error:
        return _words(error)
    finally:
        os.close(descriptor)


def _words(error: OSError) -> str:
    if error.errno == errno.EINVAL:
        return "its file system has no direct I/O"
    return (error.strerror or str(error)).lower()
