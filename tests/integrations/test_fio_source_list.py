"""Where the source of fio comes from: this machine's own package sources, and only read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "integrations" / "fio" / "source_list.py"
spec = importlib.util.spec_from_file_location("source_list", SCRIPT)
assert spec and spec.loader
source_list = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source_list)


def test_lines_keep_options_and_are_there_once():
    lines = source_list.source_lines(
        "# a comment\n"
        "deb [signed-by=/keys/a.gpg trusted=yes] http://a.example/debian stable main\n"
        "deb-src [signed-by=/keys/a.gpg trusted=yes] http://a.example/debian stable main\n"
        "#deb http://off.example stable main\n"
        "\n"
        "deb http://b.example ./\n"
    )

    assert lines == (
        "deb-src [signed-by=/keys/a.gpg trusted=yes] http://a.example/debian stable main\n"
        "deb-src http://b.example ./\n"
    )


STANZAS = """\
# what this is
Types: deb
URIs: http://a.example/debian
Suites: stable stable-updates
Components: main
# between
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://off.example

Types: deb deb-src
URIs: http://b.example
Trusted: yes
"""


def test_stanzas_keep_keys_and_trust_and_leave_out_what_is_off():
    assert (
        source_list.source_stanzas(STANZAS)
        == """\
Types: deb-src
URIs: http://a.example/debian
Suites: stable stable-updates
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb-src
URIs: http://b.example
Trusted: yes
"""
    )


def test_every_list_is_read_and_none_is_changed(tmp_path):
    apt, into = tmp_path / "apt", tmp_path / "into"
    (apt / "sources.list.d").mkdir(parents=True)
    into.mkdir()
    contents = {
        "sources.list": "deb http://a.example stable main\n",
        "sources.list.d/b.list": "# nothing\n",
        "sources.list.d/c.sources": "Types: deb\nURIs: http://c.example\n",
        "sources.list.d/d.list.off": "deb http://off.example stable main\n",
    }
    for name, text in contents.items():
        (apt / name).write_text(text)

    assert source_list.write_lists(apt, into) == 2

    assert sorted(path.name for path in into.iterdir()) == ["c.sources", "sources.list"]
    assert all((apt / name).read_text() == text for name, text in contents.items())
