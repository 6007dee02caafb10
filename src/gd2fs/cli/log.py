"""Log: what the library has to say, on stderr: as the command line writes its own messages, or as
one JSON object a line.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer

from gd2fs.cli.output import print_error, print_warning, printable
from gd2fs.errors import GD2FSError, InvalidRequest

JSON = "json"
STYLES = ("text", JSON)
EXIT_ERROR = 1
FIELDS = "fields"  # `extra` of a record: what its message says, for programs


def log_to_stderr(level: int, style: str = "text") -> None:
    """Write what is logged from ``level`` on. Raises InvalidRequest: there is no such style."""
    if style not in STYLES:
        raise InvalidRequest(f"`--log` is `{style}`", hint="`text` or `json`")
    logger = logging.getLogger("gd2fs")
    logger.setLevel(level)
    logger.handlers[:] = [_JsonHandler() if style == JSON else _StderrHandler()]
    logger.propagate = False
    if style == JSON:
        logging.getLogger().handlers[:] = [_JsonHandler(logging.WARNING)]  # of libraries


@contextmanager
def error_as_json() -> Iterator[None]:
    """What ends the command is one more line of the log."""
    try:
        yield
    except GD2FSError as error:
        fields = {"hint": error.hint} if error.hint else {}
        logging.getLogger("gd2fs").error("%s", error, extra={FIELDS: fields})
        raise typer.Exit(EXIT_ERROR) from error


def as_json(record: logging.LogRecord) -> str:
    """One line: ``time`` (UTC), ``level``, ``logger``, ``message``, and the record's own fields."""
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {
        "time": when.replace("+00:00", "Z"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    line |= {key: value for key, value in getattr(record, FIELDS, {}).items() if key not in line}
    if record.exc_info:
        line["exception"] = logging.Formatter().formatException(record.exc_info)
    return json.dumps(line, default=str)


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            print_error(record.getMessage())
        elif record.levelno >= logging.WARNING:
            print_warning(record.getMessage())
        else:
            print(printable(record.getMessage()), file=sys.stderr)


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(as_json(record), file=sys.stderr, flush=True)
