"""The command line: `gd2fs`. One file per group of commands; nothing else imports from here."""

from gd2fs.cli.app import main

__all__ = ["main"]
