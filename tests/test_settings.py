"""Settings of a running node: shown, changed at run time, refused in words that help."""

from __future__ import annotations

import json
import tomllib
import urllib.request

import pytest

from gd2fs import Client
from gd2fs.config import NodeConfig
from gd2fs.config_file import as_toml, parse_config
from gd2fs.errors import InvalidRequest
from gd2fs.node import Node
from gd2fs.nvme import Nvme, NvmePlace
from gd2fs.rules import NamespaceRules, RuleSet
from gd2fs.settings import OPTIONS, Settings, answer, options_of


class RecordedServer:
    """Stands in for the native server: keeps what it was told."""

    def __init__(self):
        self.rules = {}
        self.rate = None
        self.nvme_rate = None

    def set_rules(self, namespace, **rules):
        self.rules[namespace] = rules

    def set_move_rate(self, bytes_per_s):
        self.rate = bytes_per_s

    def set_nvme_rate(self, bytes_per_s):
        self.nvme_rate = bytes_per_s

    def spaces(self):
        pinned = 3 << 20
        return [(b"", 0, 0, 0, 0, 0)] + [
            (name.encode(), pinned, pinned, 0, rules["quota_bytes"], 0)
            for name, rules in self.rules.items()
        ]


@pytest.fixture
def server():
    return RecordedServer()


@pytest.fixture
def settings(server):
    rules = RuleSet(namespaces={"kv": NamespaceRules(quota_bytes=1 << 30)})
    return Settings(NodeConfig("c", rules=rules), server)


def test_rules_of_the_file_are_set_at_the_start(server, settings):
    assert server.rules["kv"]["quota_bytes"] == 1 << 30


def test_a_rule_that_is_set_holds_and_is_shown(server, settings):
    settings.change("namespace.kv.policy", "s3-fifo")
    settings.change('namespace."a b".ttl', "1h")
    settings.change("default.class", "5")

    assert server.rules["kv"]["policy"] == "s3-fifo"
    assert server.rules["kv"]["quota_bytes"] == 1 << 30
    assert server.rules["a b"]["ttl_s"] == 3600
    assert server.rules[""]["eviction_class"] == 5
    shown = settings.show()
    assert shown["namespace"] == {
        "kv": {"policy": "s3-fifo", "quota": "1GiB"},
        "a b": {"ttl": 3600},
    }
    assert shown["default"] == {"class": 5}


def test_a_rule_that_is_taken_back_is_as_for_every_namespace(server, settings):
    settings.change("namespace.kv.quota", None)

    assert server.rules["kv"]["quota_bytes"] == 0


def test_a_namespace_whose_last_rule_is_taken_back_is_named_no_more(server, settings):
    settings.change("default.class", 5)
    settings.change("namespace.kv.policy", "s3-fifo")
    settings.change("namespace.kv.quota", None)
    assert settings.show()["namespace"] == {"kv": {"policy": "s3-fifo"}}

    settings.change("namespace.kv.policy", None)

    assert "namespace" not in settings.show()
    assert server.rules["kv"]["eviction_class"] == 5  # as all that are not named
    assert server.rules["kv"]["policy"] == "lru"
    settings.change("default.class", 6)
    assert server.rules["kv"]["eviction_class"] == 6


def test_a_namespace_that_is_named_again_has_its_own_rules(server, settings):
    settings.change("namespace.kv.quota", None)
    settings.change("namespace.kv.ttl", 60)

    settings.change("default.class", 6)

    assert server.rules["kv"]["eviction_class"] == 3
    assert settings.show()["namespace"] == {"kv": {"ttl": 60}}


def test_what_was_never_set_leaves_no_trace_when_it_is_taken_back(server):
    empty_on_purpose = RuleSet(namespaces={"kv": NamespaceRules()})
    settings = Settings(NodeConfig("c", rules=empty_on_purpose), server)

    settings.change("namespace.other.quota", None)
    settings.change("namespace.kv.quota", None)

    assert settings.show()["namespace"] == {"kv": {}}
    assert "other" not in server.rules


@pytest.mark.parametrize(
    ("value", "line"), [(None, "unset default.ttl"), ("1h", "set default.ttl to '1h'")]
)
def test_a_change_is_in_the_log(settings, logged, value, line):
    answer(settings, json.dumps({"do": "set", "key": "default.ttl", "value": value}).encode())

    assert logged == [line]


def test_the_rate_of_moves_can_be_changed(server, settings):
    settings.change("move-rate", "64MiB")

    assert server.rate == 64 << 20
    assert settings.show()["move_rate"] == "64MiB"


def test_the_rate_of_a_disk_can_be_changed_and_taken_back(server):
    settings = Settings(NodeConfig("c", nvme=Nvme((NvmePlace("/mnt/a"),))), server)

    settings.change("nvme-rate", "64MiB")
    assert server.nvme_rate == 64 << 20
    assert settings.show()["nvme_rate"] == "64MiB"
    settings.change("nvme_rate", None)

    assert server.nvme_rate == 0
    with pytest.raises(InvalidRequest, match="too slow"):
        settings.change("nvme_rate", "1KiB")


def test_a_node_without_a_disk_has_no_rate_of_one(server, settings):
    with pytest.raises(InvalidRequest, match="no disk"):
        settings.change("nvme_rate", "64MiB")

    assert server.nvme_rate is None


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("threads", 8, "`threads` is read when the node starts"),
        ("memory", "1GiB", "`memory` is read when the node starts"),
        ("memroy", 8, "`memroy` is no setting"),
        ("namespace.kv", 8, "`namespace.kv` is no rule"),
        ("namespace.kv.quota.x", 8, "`namespace.kv.quota.x` is no rule"),
        ("default.namespace.quota", 8, "is no rule"),
        ("namespace.kv.quota", "lots", "`namespace.kv.quota` is 'lots'"),
        ("namespace.kv.qouta", 1, "`namespace.kv.qouta` is no rule"),
        ('namespace."a/b".quota', 1, "a/b"),
        ("move_rate", "1KiB", "`move_rate` is '1KiB'"),
    ],
)
def test_what_cannot_be_set_is_refused_by_its_key_and_changes_nothing(
    server, settings, key, value, words
):
    before = settings.show()

    with pytest.raises(InvalidRequest) as refused:
        settings.change(key, value)

    assert words in str(refused.value)
    assert settings.show() == before


def test_pins_beyond_a_quota_are_told_to_who_sets_it(settings):
    change = '{"do": "set", "key": "namespace.kv.quota", "value": "%s"}'

    told = answer(settings, (change % "2MiB").encode())
    quiet = answer(settings, (change % "4MiB").encode())

    [warning] = told["warnings"]
    assert warning.startswith("1048576 pinned bytes of namespace `kv` are more than its quota")
    assert quiet["warnings"] == []


def test_metrics_have_the_pins_beyond_a_quota():
    config = NodeConfig("over", ("127.0.0.1:0",), 64 << 20, arena="plain", admin="127.0.0.1:0")
    with Node.start(config) as node, Client(node.addresses, cluster="over") as client:
        client.pages("kv").put(["k"], [bytes(3 << 20)])
        client.pages("kv").fadvise(["k"], "pin").wait()
        [reply] = client.settings({"do": "set", "key": "namespace.kv.quota", "value": "1MiB"})
        with urllib.request.urlopen(f"http://{node.admin_address}/metrics") as page:
            lines = page.read().decode().splitlines()

    assert 'gd2fs_namespace_pinned_over_quota_bytes{namespace="kv"} 2.097152e+06' in lines
    assert len(reply.value["warnings"]) == 1


def test_requests_that_are_none_are_refused(settings):
    for text in (b"", b"7", b"{}", b'{"do": "x"}', b'{"do": "set"}', b"\xff"):
        with pytest.raises(InvalidRequest):
            answer(settings, text)


def test_what_is_shown_can_be_read_as_a_file(settings):
    settings.change("namespace.kv.pin_max", "none")
    kinds = {name: type(value) for name, value in options_of(NodeConfig("c")).items()}

    file = parse_config(tomllib.loads(as_toml(settings.show())), kinds)

    assert file.rules == settings.rules
    assert file.options["cluster"] == "c"


def test_options_are_shown_by_the_names_that_serve_knows():
    from typer.main import get_command

    from gd2fs.cli.app import make_app

    serve = get_command(make_app("serve")).commands["serve"]
    known = {parameter.name for parameter in serve.params}
    assert known >= OPTIONS - {"etcd"}


def test_metrics_have_the_bytes_and_the_quota_of_each_namespace():
    rules = RuleSet(namespaces={"kv": NamespaceRules(quota_bytes=1 << 20)})
    config = NodeConfig(
        "metrics", ("127.0.0.1:0",), 64 << 20, arena="plain", admin="127.0.0.1:0", rules=rules
    )
    with Node.start(config) as node, Client(node.addresses, cluster="metrics") as client:
        client.pages("kv").put(["k"], [bytes(100_000)])
        with urllib.request.urlopen(f"http://{node.admin_address}/metrics") as page:
            lines = page.read().decode().splitlines()

    assert 'gd2fs_namespace_quota_bytes{kind="memory",namespace="kv"} 1.048576e+06' in lines
    assert 'gd2fs_namespace_bytes{kind="memory",namespace="kv"} 102400.0' in lines
    assert 'gd2fs_namespace_bytes{kind="memory",namespace=""} 0.0' in lines


def test_the_disks_of_a_node_are_shown_as_serve_takes_them():
    places = (NvmePlace("/mnt/a", 1 << 30), NvmePlace("/mnt/b"))
    nvme = Nvme(places, write_bytes_per_s=64 << 20, write="through")

    shown = options_of(NodeConfig("c", nvme=nvme))

    assert shown["nvme"] == "/mnt/a:1GiB,/mnt/b"
    assert shown["nvme_rate"] == "64MiB"
    assert shown["nvme_write"] == "through"
    assert shown["nvme_keep"] == "inclusive"
