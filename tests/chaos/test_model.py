"""What the model's program says is read, and one that fails is no answer."""

from __future__ import annotations

import pytest

from chaos.model import CASE, ModelFailed, rules_found


def program(folder, text: str, status: int):
    path = folder / "test_protocol"
    path.write_text(f"#!/bin/sh\necho \"$1\"\ncat <<'END'\n{text}\nEND\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_rules_that_were_missed_are_named(tmp_path):
    lines = [
        "MESSAGE: without new version: 1 of 3000 seeds show it",
        "without lease: 0 of 3000 seeds show it",
    ]
    said = "\n".join(lines)

    assert rules_found(program(tmp_path, said, 0)) == {"new version"}


def test_a_model_that_fails_says_so(tmp_path):
    with pytest.raises(ModelFailed, match=f"ended with 1: .*{CASE}"):
        rules_found(program(tmp_path, "", 1))
