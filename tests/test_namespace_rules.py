"""Rules of namespaces and configuration files: what is read and what is refused, in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gd2fs.config_file import as_toml, parse_key, read_config
from gd2fs.errors import InvalidRequest
from gd2fs.rules import (
    DEMOTIONS,
    KEEPS,
    NAMESPACES_MAX,
    POLICIES,
    NamespaceRules,
    RuleSet,
    parse_duration,
    parse_rule_tables,
)

OPTIONS = {"memory": str, "threads": int, "ramp": float, "listen": str}

RULES = st.builds(
    NamespaceRules,
    policy=st.sampled_from(POLICIES),
    eviction_class=st.integers(0, 7),
    quota_bytes=st.integers(0, 1 << 50),
    disk_quota_bytes=st.integers(0, 1 << 50),
    ttl_s=st.integers(0, 1 << 31),
    pin_bytes_max=st.none() | st.integers(0, 1 << 50),
    demote=st.none() | st.sampled_from(DEMOTIONS),
    keep=st.none() | st.sampled_from(KEEPS),
)
NAMES = st.text(
    st.characters(exclude_characters="/,=\0", exclude_categories=["Cs"]), min_size=1, max_size=20
).filter(lambda name: name.isprintable() and name not in (".", ".."))


def write(tmp_path, text: str):
    path = tmp_path / "node.toml"
    path.write_text(text)
    return path


def refusal(tmp_path, text: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read_config(write(tmp_path, text), OPTIONS)
    return f"{refused.value} [{refused.value.hint}]"


def test_a_file_has_options_at_its_top_and_rules_in_tables(tmp_path):
    text = """
        memory = "8GiB"
        threads = 4
        ramp = 2
        listen = ["tcp://a:1", "tcp://b:2"]
        [default]
        policy = "s3-fifo"
        [namespace.kv]
        quota = "2GiB"
        ttl = "2h"
        class = 6
        pin_max = "none"
        [namespace."a b"]
        demote = "through"
        keep = "exclusive"
        disk_quota = 4096
    """

    file = read_config(write(tmp_path, text), OPTIONS)

    assert file.options == {
        "memory": "8GiB",
        "threads": 4,
        "ramp": 2,
        "listen": "tcp://a:1,tcp://b:2",
    }
    assert file.rules == RuleSet(
        NamespaceRules("s3-fifo"),
        {
            "kv": NamespaceRules(
                quota_bytes=2 << 30, ttl_s=7200, eviction_class=6, pin_bytes_max=0
            ),
            "a b": NamespaceRules(demote="through", keep="exclusive", disk_quota_bytes=4096),
        },
    )


def test_a_namespace_that_is_named_takes_nothing_from_the_default(tmp_path):
    text = '[default]\nquota = "1GiB"\n[namespace.kv]\nclass = 1\n'

    rules = read_config(write(tmp_path, text), OPTIONS).rules

    assert rules.of("kv").quota_bytes == 0
    assert rules.of("other").quota_bytes == 1 << 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memroy = '1GiB'", "`memroy` is no setting [did you mean `memory`?]"),
        ("thread-s = 1", "`thread-s` is no setting [did you mean `threads`?]"),
        ("xyz = 1", "`xyz` is no setting [`gd2fs serve --help`"),
        ("threads = 'two'", "`threads` is 'two' [give a whole number]"),
        ("threads = true", "`threads` is True [give a whole number]"),
        ("listen = true", "`listen` is True [give a text in quotes]"),
        ("listen = [1]", "`listen` is [1] [give a text in quotes]"),
        ("[namespace.kv]\nqouta = 1", "`namespace.kv.qouta` is no rule [did you mean `quota`?]"),
        ("[namespace.kv]\nquota = 'x'", "`namespace.kv.quota` is 'x', not a size"),
        ("[namespace.kv]\nquota = -1", "`namespace.kv.quota` is -1, not a size"),
        ("[namespace.kv]\nclass = 8", "`namespace.kv.class` is 8 [0, which goes first, to 7]"),
        ("[namespace.kv]\nttl = 'soon'", "`namespace.kv.ttl` is 'soon'"),
        (
            "[default]\npolicy = 'fifo'",
            "`default.policy` is 'fifo' [one of lru, s3-fifo, priority]",
        ),
        ("[default]\ndemote = 1", "`default.demote` is 1 [one of none, back, through]"),
        ("default = 1", "`default` is 1, not a table"),
        ("[namespace]\nkv = 1", "`namespace.kv` is 1, not a table"),
        ("[namespace.'a/b']", "a/b"),
        ("memory = ", "is not TOML"),
        ("memory = '1'\nmemory = '2'", "is not TOML"),
    ],
)
def test_what_means_nothing_is_refused_by_its_key(tmp_path, text, words):
    said = refusal(tmp_path, text)

    assert words in said
    assert "node.toml" in said


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="cannot read"):
        read_config(tmp_path / "none.toml", OPTIONS)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequest, match="is not TOML"):
        read_config(tmp_path / "bytes.toml", OPTIONS)


@given(RULES, st.dictionaries(NAMES, RULES, max_size=4))
def test_rules_that_are_written_as_a_file_are_read_as_they_were(default, namespaces):
    import tomllib

    rules = RuleSet(default, namespaces)

    tables = tomllib.loads(as_toml(rules.as_tables()))

    assert parse_rule_tables(tables.get("default"), tables.get("namespace")) == rules


def test_too_many_namespaces_are_refused():
    tables = {f"n{number}": {} for number in range(NAMESPACES_MAX + 1)}

    with pytest.raises(InvalidRequest, match="256 namespaces"):
        parse_rule_tables(None, tables)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (90, 90), ("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("7 d", 604_800)],
)
def test_durations_are_read(value, seconds):
    assert parse_duration(value, "ttl") == seconds


@pytest.mark.parametrize("value", [-1, "-1s", "1y", "", 1.5, True, "99999w", None])
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(InvalidRequest, match="`ttl` is"):
        parse_duration(value, "ttl")


def test_keys_are_read_as_toml_reads_them():
    assert parse_key("namespace.kv.quota") == ("namespace", "kv", "quota")
    assert parse_key('namespace."a.b".ttl') == ("namespace", "a.b", "ttl")
    for broken in ("", "a b", "a = 1\nb", "[a]", "a.", 'a = 1 # "'):
        with pytest.raises(InvalidRequest, match="is no key"):
            parse_key(broken)
