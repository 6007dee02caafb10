"""Errors: a class exists only where the caller acts differently. A miss is not an error.

GD2FSError
├── InvalidRequest    fix the call or the configuration; a retry cannot help
├── Unavailable       a peer or the network; retry, or treat as a miss
├── Corrupt           bytes did not match their checksum; that copy was dropped
└── Closed            the client or node was shut down; make a new one
"""

from __future__ import annotations


class GD2FSError(Exception):
    """Base of all errors of this package: one line that says what happened, and to what.

    Attributes:
        hint: What to do about it, one line; empty when there is nothing to add.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class InvalidRequest(GD2FSError):
    """The call or the configuration breaks a rule. Fix it; a retry cannot help."""


class Unavailable(GD2FSError):
    """A node or the network did not answer in time. Retry, or treat it as a miss."""


class Corrupt(GD2FSError):
    """Bytes did not match their checksum. That copy was dropped; send them again."""


class Closed(GD2FSError):
    """The client or node was shut down. Make a new one."""
