"""App: gathers the commands, runs one, and turns what went wrong into two lines and a status.

Exit status: 0 done, 1 an error, 2 wrong usage, 3 a miss, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from gd2fs.cli import Ended, status
from gd2fs.cli.access import add_access
from gd2fs.cli.log import log_to_stderr
from gd2fs.cli.output import Miss, print_error, print_miss
from gd2fs.errors import GD2FSError

EXIT_ERROR = 1
EXIT_MISS = 3

# Commands by the file that has them, in the order of the help.
GROUPS: dict[str, tuple[str, ...]] = {
    "serve": ("serve",),
    "transfer": ("put", "get"),
    "files": ("ls", "stat", "rm", "sync"),
    "advise": ("advise",),
    "status": ("status", "version"),
    "top": ("top",),
    "trace": ("trace",),
    "whatif": ("whatif",),
    "why": ("why",),
    "cluster": ("cluster", "drain"),
    "config": ("config",),
    "token": ("token",),
    "doctor": ("doctor",),
    "topology": ("topology",),
    "plan": ("plan",),
    "bench": ("demo", "bench", "sim"),
}


def make_app(word: str = "") -> typer.Typer:
    """The command line; only a part of it where ``word`` is a command.

    What some commands import takes longer than most others take to run.
    """
    app = typer.Typer(
        name="gd2fs",
        help="A distributed store for the KV caches of large language models.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    command = word.removeprefix("--")  # --version
    for group in [name for name, commands in GROUPS.items() if command in commands] or GROUPS:
        importlib.import_module(f"gd2fs.cli.{group}").register(app)
    add_access(app)
    return app


def _options(
    is_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=status.show_version, help="The version"),
    ] = False,
) -> None:
    """A distributed store for the KV caches of large language models."""


def run(words: Sequence[str]) -> int:
    """Run one command and return its exit status. No user's mistake ends in a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name need not fit the locale
    log_to_stderr(logging.WARNING)
    try:
        app = make_app(words[0] if words else "")
        ended_as = app(args=list(words), prog_name="gd2fs", standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()  # what cannot be written is an error of the command
        return ended_as
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own, whichever click it carries
            return _report_usage(error)
        for kind, report in _REPORTS.items():
            if isinstance(error, kind):
                return report(error)
        raise
    except Ended as ended:
        print_error(ended.word)
        return ended.status


def _report_miss(miss: Miss) -> int:
    print_miss(miss)
    return EXIT_MISS


def _report_ours(error: GD2FSError) -> int:
    print_error(str(error), hint=getattr(error, "hint", ""))
    return EXIT_ERROR


def _report_pipe(_: BrokenPipeError) -> int:
    _drop_output()
    return EXIT_ERROR


def _report_system(error: OSError) -> int:
    _drop_output()
    where = f": {error.filename}" if error.filename else ""
    print_error(f"{(error.strerror or str(error)).lower()}{where}")
    return EXIT_ERROR


def _drop_output() -> None:
    """What cannot be written and is still buffered must not raise again at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "gd2fs"
    message = " ".join(error.format_message().split()).rstrip(".").replace("'", "`")
    if message:  # none: the help was all that could be said
        print_error(message[:1].lower() + message[1:], hint=f"run `{command} --help`")
    return error.exit_code


_REPORTS: dict[type[Exception], Callable[..., int]] = {
    Miss: _report_miss,
    GD2FSError: _report_ours,
    BrokenPipeError: _report_pipe,
    OSError: _report_system,
}
