"""Log: what the library has to say, on stderr, as the command line writes its own messages."""

from __future__ import annotations

import logging
import sys

from gd2fs.cli.output import print_warning, printable


def log_to_stderr(level: int) -> None:
    """Write what is logged from ``level`` on."""
    logger = logging.getLogger("gd2fs")
    logger.setLevel(level)
    logger.handlers[:] = [_StderrHandler()]
    logger.propagate = False


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            print_warning(record.getMessage())
        else:
            print(printable(record.getMessage()), file=sys.stderr)
