"""Tokens as text and in files; and that no secret shows where it is not handed over."""

from __future__ import annotations

import threading

import pytest

from gd2fs.config import ClientConfig, NodeConfig, client_config
from gd2fs.errors import InvalidRequest
from gd2fs.settings import options_of
from gd2fs.token_watch import TokenPlaces, TokenWatch
from gd2fs.tokens import (
    KnownToken,
    key_of,
    new_token,
    parse_token,
    read_tenants,
    read_token_file,
)

SECRET = "q" * 20 + "Zx9Zx9-_0123456789AB"
TEXT = f"main-1.{SECRET}"
CP = "127.0.0.1:7527"


def test_a_new_token_is_read_back():
    token = new_token("main-1")

    assert parse_token(token.as_text() + "\n") == token
    assert len(token.secret) == 43 and new_token("main-1") != token


@pytest.mark.parametrize(
    "text",
    [
        "",
        SECRET,
        f".{SECRET}",
        f"Main.{SECRET}",
        "main.short",
        f"main.{SECRET}/",
        f"main.{SECRET}.x",
        "m" * 33 + f".{SECRET}",
    ],
)
def test_what_is_no_token_is_refused_without_a_word_of_its_secret(text):
    with pytest.raises(InvalidRequest) as refusal:
        parse_token(text)

    assert "Zx9" not in str(refusal.value) + refusal.value.hint


def test_no_text_of_a_token_has_its_secret():
    token = parse_token(TEXT)
    client = ClientConfig((CP,), "c", token=token)
    node = NodeConfig("c", token=token)

    shown = [repr(each) for each in (token, client, node, KnownToken("n", key_of(SECRET)))]
    shown += [str(token), f"{client}", str(options_of(node))]
    assert not any("Zx9" in text or key_of(SECRET).hex()[:8] in text for text in shown)


def test_a_file_has_one_token_or_two(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"# new\nmain-2.{SECRET}\n\n  {TEXT}  \n")
    file.chmod(0o600)

    assert [token.name for token in read_token_file(file)] == ["main-2", "main-1"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "has 0 tokens"),
        ("# none\n", "has 0 tokens"),
        (f"{TEXT}\n{TEXT}\n", "two tokens"),
        (f"a.{SECRET}\nb.{SECRET}\nc.{SECRET}\n", "has 3 tokens"),
        ("half", "is not `NAME.SECRET`"),
    ],
)
def test_a_file_of_other_tokens_is_refused_by_name(tmp_path, text, said):
    file = tmp_path / "token"
    file.write_text(text)

    with pytest.raises(InvalidRequest, match=said) as refusal:
        read_token_file(file)

    assert str(file) in str(refusal.value) and "Zx9" not in str(refusal.value)


def test_a_file_that_everybody_can_read_is_told_of(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(TEXT)
    file.chmod(0o644)

    TokenPlaces(file).read()

    assert "chmod 600" in caplog.text and SECRET not in caplog.text


def test_looking_whether_files_have_changed_says_nothing(tmp_path, tenants, caplog):
    file = tmp_path / "token"
    file.write_text(TEXT)
    for each in (file, tenants):
        each.chmod(0o644)

    TokenPlaces(file, None, tenants).seen()

    assert caplog.text == ""


def test_a_line_that_is_no_token_is_named_by_its_number(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TEXT}\n\nhalf\n")

    with pytest.raises(InvalidRequest, match=f"line 3 of {file} is not"):
        read_token_file(file)


TENANTS = """
[tokens.team-a]
secret_hash = "{hash}"
rights = "write"
namespaces = ["a", "a-cold"]

[tokens.prometheus]
secret_file = "prometheus.token"
rights = "read"
namespaces = ["*"]
"""


@pytest.fixture
def tenants(tmp_path):
    (tmp_path / "prometheus.token").write_text(f"prometheus.{SECRET}")
    file = tmp_path / "tenants.toml"
    file.write_text(TENANTS.format(hash=key_of(SECRET).hex()))
    return file


def test_tenants_are_read_with_their_rights(tenants):
    team, watcher = read_tenants(tenants)

    assert team == KnownToken("team-a", key_of(SECRET), "write", ("a", "a-cold"))
    assert watcher == KnownToken("prometheus", key_of(SECRET), "read", ())


@pytest.mark.parametrize(
    "right, may", [("read", "read"), ("write", "read write"), ("admin", "read write admin")]
)
def test_each_right_has_those_before_it(right, may):
    known = KnownToken("n", b"", right, ("a",))

    assert [each for each in ("read", "write", "admin") if known.may(each, "a")] == may.split()
    assert not any(known.may(each, "b") or known.may(each) for each in ("read", "write", "admin"))


@pytest.mark.parametrize(
    "change, said",
    [
        (("write", "all"), "`rights` is 'all'"),
        (("[tokens.team-a]", "[tokens.Team]"), "`Team` is no name of a token"),
        (("[tokens.team-a]", "[token.team-a]"), r"only tables `\[tokens.NAME\]`"),
        (("secret_hash", "secret_hass"), "did you mean `secret_hash`"),
        (('["a", "a-cold"]', "[]"), "`namespaces` lists none"),
        (('["a", "a-cold"]', '["a", "*"]'), r"`\*` stands beside others"),
        (('["a", "a-cold"]', '["a/b"]'), "is no namespace"),
        (("prometheus.token", "nowhere.token"), "cannot read"),
        (('rights = "read"', 'secret_hash = ""\nrights = "read"'), "has not one secret"),
        (("[tokens.prometheus]", "[tokens.other]"), "is not of this token alone"),
        (("]", "", 1), "is not TOML"),
    ],
)
def test_a_wrong_file_of_tenants_is_refused_by_its_key(tenants, change, said):
    tenants.write_text(tenants.read_text().replace(*change))

    with pytest.raises(InvalidRequest, match=said) as refusal:
        try:
            read_tenants(tenants)
        except InvalidRequest as error:
            raise InvalidRequest(f"{error} {error.hint}") from error

    assert "Zx9" not in str(refusal.value)


def test_the_environment_gives_a_token_and_a_file_goes_before_it():
    given = {"GD2FS_TOKEN": TEXT}

    assert client_config(CP, cluster="c", environment=given).token == parse_token(TEXT)
    both = given | {"GD2FS_TOKEN_FILE": "/run/token"}
    config = client_config(CP, cluster="c", environment=both)
    assert (config.token, config.token_file) == (None, "/run/token")
    assert client_config(CP, cluster="c", token="", environment=both).token_file is None


@pytest.mark.parametrize("address", ["0.0.0.0:7527", "10.0.0.1:7527", "[::]:7527", "host:7527"])
def test_other_machines_are_served_with_a_token_or_on_purpose(address):
    for wrong in ({"listen": (address,)}, {"admin": address}):
        with pytest.raises(InvalidRequest, match="has no token"):
            NodeConfig("c", **wrong)
        NodeConfig("c", **wrong, insecure=True)
        NodeConfig("c", **wrong, token=parse_token(TEXT))


@pytest.mark.parametrize("address", ["127.0.0.1:7527", "127.9.9.9:1", "[::1]:1", "localhost:1"])
def test_this_machine_is_served_without(address):
    assert NodeConfig("c", listen=(address,), admin=address).token_places.is_open


def test_tenants_need_a_token_of_the_cluster(tenants):
    with pytest.raises(InvalidRequest, match="no token of the cluster"):
        NodeConfig("c", tenants=str(tenants))


class Applied:
    """What a watch has applied, for a test to wait for."""

    def __init__(self) -> None:
        self.known: list[list[str]] = []
        self._has_more = threading.Semaphore(0)

    def take(self, known) -> None:
        self.known.append([each.name for each in known])
        self._has_more.release()

    def next(self) -> list[str]:
        assert self._has_more.acquire(timeout=20)
        return self.known[-1]

    def waits_for(self, names: list[str]) -> bool:
        """Whether these come; what was read between two changes may come before."""
        while self.next() != names:
            pass
        return True


@pytest.mark.slow
def test_changed_files_are_read_again_and_wrong_ones_change_nothing(tmp_path, tenants, caplog):
    file = tmp_path / "token"
    file.write_text(TEXT)
    places = TokenPlaces(file, None, tenants)
    applied = Applied()
    watch = TokenWatch(places, places.seen(), applied.take)
    try:
        file.write_text(f"main-2.{SECRET}\n{TEXT}")
        watch.look_now()
        assert applied.next() == ["main-2", "main-1", "team-a", "prometheus"]
        file.write_text("half-writ")
        watch.look_now()
        file.write_text(f"main-2.{SECRET}")
        tenants.write_text("")
        assert applied.waits_for(["main-2"])
    finally:
        watch.stop()
    assert all(names[0] == "main-2" for names in applied.known)
    assert SECRET not in caplog.text


@pytest.mark.slow
def test_a_watch_outlives_what_it_cannot_make_sense_of(tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(TEXT)
    places = TokenPlaces(file)
    applied = Applied()
    faults = iter([RuntimeError("out of order")])

    def take(known) -> None:
        for fault in faults:
            raise fault
        applied.take(known)

    watch = TokenWatch(places, places.seen(), take)
    try:
        file.write_text(f"main-2.{SECRET}")
        watch.look_now()
        while "out of order" not in caplog.text:
            watch.look_now()
        file.write_text(f"main-3.{SECRET}")

        assert applied.waits_for(["main-3"])
    finally:
        watch.stop()
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        '[tokens.a]\nrights = "read"\nnamespaces = ["*"]\nsecret_file = "\\u0000"',
        "a = " + "[" * 9999,
    ],
    ids=["no path", "too deep"],
)
def test_a_file_of_tenants_that_nobody_could_mean_is_refused(tmp_path, text):
    file, tenants = tmp_path / "token", tmp_path / "tenants.toml"
    file.write_text(TEXT)
    tenants.write_text(text)
    places = TokenPlaces(file, None, tenants)

    assert places.seen()
    with pytest.raises(InvalidRequest, match=str(tmp_path)):
        places.read()
