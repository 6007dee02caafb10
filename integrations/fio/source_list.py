"""Source list: apt's own sources of this machine again, but for source packages.

    source_list.py FROM TO      FROM: apt's folder, /etc/apt; TO: an empty folder of one's own

Where packages come from, whose keys sign them and which options are set stays as it is; only the
type becomes `deb-src`. Nothing below FROM is changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

TYPES = {"deb", "deb-src"}
TYPES_FIELD = re.compile(r"^Types:(.*)$", re.MULTILINE | re.IGNORECASE)
IS_OFF = re.compile(r"^Enabled:\s*(no|false|off|0)\s*$", re.MULTILINE | re.IGNORECASE)


def source_lines(text: str) -> str:
    """One-line entries (`sources.list`, `*.list`): `deb [OPTIONS] URI SUITE COMPONENT…`."""
    entries = (line.split(maxsplit=1) for line in text.splitlines())
    wanted = [entry[1] for entry in entries if len(entry) == 2 and entry[0] in TYPES]
    return "".join(f"deb-src {rest}\n" for rest in dict.fromkeys(wanted))


def source_stanzas(text: str) -> str:
    """Stanzas (`*.sources`): fields, of which `Types` is replaced; disabled ones are left out."""
    return "\n".join(dict.fromkeys(_stanzas(text)))


def _stanzas(text: str) -> Iterator[str]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", kept.strip("\n")):
        types = TYPES_FIELD.search(stanza)
        if types and not IS_OFF.search(stanza) and TYPES & set(types[1].split()):
            yield stanza.replace(types[0], "Types: deb-src") + "\n"


def write_lists(apt: Path, into: Path) -> int:
    """Write a list into ``into`` for each one that apt reads below ``apt``; how many."""
    parts = apt / "sources.list.d"
    files = [apt / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    count = 0
    for path in filter(Path.is_file, files):
        convert = source_stanzas if path.suffix == ".sources" else source_lines
        text = convert(path.read_text(encoding="utf-8"))
        if text:
            (into / path.name).write_text(text, encoding="utf-8")
            count += 1
    return count


def main() -> None:
    apt, into = map(Path, sys.argv[1:])
    if write_lists(apt, into) == 0:
        sys.exit(f"error: `{apt}` names no source of packages")


if __name__ == "__main__":
    main()
