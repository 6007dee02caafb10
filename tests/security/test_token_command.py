"""`gd2fs token`: making tokens and checking files, without a word of a secret."""

from __future__ import annotations

import json
import stat

import pytest

from gd2fs.cli import main
from gd2fs.tokens import key_of, parse_token
from security.guarded import MAIN

SECRET = "q" * 20 + "Zx9Zx9-_0123456789AB"


def test_a_new_token_is_printed(capsys):
    assert main(["token", "new", "team-a"]) == 0

    assert parse_token(capsys.readouterr().out).name == "team-a"


def test_a_new_token_is_written_for_one_user_and_over_nothing(tmp_path, capsys):
    file = tmp_path / "token"

    assert main(["token", "new", "main", "--out", str(file)]) == 0
    assert parse_token(file.read_text()).name == "main"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert main(["token", "new", "main", "--out", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and f"{file} is there already" in err and f">> {file}" in err


def test_a_folder_that_is_not_there_is_named_with_its_fix(tmp_path, capsys):
    assert main(["token", "new", "main", "--out", str(tmp_path / "etc" / "token")]) == 1

    assert f"`mkdir -p {tmp_path / 'etc'}`" in capsys.readouterr().err


def test_a_name_that_is_none_is_refused(capsys):
    assert main(["token", "new", "Team A"]) == 1

    assert "no name of a token" in capsys.readouterr().err


@pytest.fixture
def files(tmp_path):
    token, tenants = tmp_path / "token", tmp_path / "tenants.toml"
    token.write_text(f"main.{SECRET}")
    token.chmod(0o600)
    lines = [f'secret_hash = "{key_of(SECRET).hex()}"', 'rights = "write"', 'namespaces = ["a"]']
    tenants.write_text("\n".join(["[tokens.team-a]", *lines]))
    tenants.chmod(0o600)
    return token, tenants


def test_a_hash_is_what_a_file_of_tenants_says(files, capsys):
    assert main(["token", "hash", str(files[0])]) == 0

    assert capsys.readouterr().out == f'[tokens.main]\nsecret_hash = "{key_of(SECRET).hex()}"\n'


def test_a_check_says_what_each_token_may(files, capsys):
    words = ["token", "check", "--token-file", str(files[0]), "--tenants", str(files[1])]

    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["rights"], each["namespaces"]) for each in told] == [
        ("main", "cluster", "everything"),
        ("team-a", "write", "a"),
    ]
    assert main(words) == 0 and "Zx9" not in capsys.readouterr().out


def test_a_wrong_file_is_told(files, capsys):
    files[1].write_text('[tokens.team-a]\nrights = "all"')

    assert main(["token", "check", "--tenants", str(files[1])]) == 1
    assert "`rights` is 'all'" in capsys.readouterr().err


def test_commands_that_ask_a_cluster_take_the_file_of_a_token(lone_guarded, tmp_path, capsys):
    token = tmp_path / "mine"
    token.write_text(MAIN.token.as_text())
    words = ["status", "--cp", lone_guarded.cp, "--cluster", lone_guarded.cluster, "--json"]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GD2FS_TOKEN_FILE", "")  # put back as it was, whatever the command does

        assert main(words) == 1 and "wants a token" in capsys.readouterr().err
        assert main([*words, "--token-file", str(token)]) == 0
    assert json.loads(capsys.readouterr().out)
