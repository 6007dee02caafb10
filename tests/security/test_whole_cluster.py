"""Who may see the cluster as a whole: whoever may read everything. Changing it takes more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gd2fs import Client
from gd2fs.cli import main
from gd2fs.errors import InvalidRequest
from gd2fs.overview import ClusterWatch
from gd2fs.testing.cluster import Cluster
from security.guarded import A_ADMIN, MAIN, WATCHER, Holder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes that ask for tokens."""
    folder = tmp_path_factory.mktemp("kept")
    tenants = "".join(
        f'[tokens.{each.token.name}]\nsecret_hash = "{each.token.key.hex()}"\n'
        f'rights = "{each.right}"\nnamespaces = {list(each.namespaces or ("*",))}\n'
        for each in (WATCHER, A_ADMIN)
    )
    for name, text in (("token", MAIN.token.as_text()), ("tenants", tenants)):
        (folder / name).touch(0o600)
        (folder / name).write_text(text)
    options = ("--token-file", str(folder / "token"), "--tenants", str(folder / "tenants"))
    with Cluster(2, "32MiB", str(folder), arena="plain", options=options) as running:
        yield running


def client_of(cluster: Cluster, who: Holder) -> Client:
    return Client(cluster.cp, cluster=cluster.name, token=who.token, timeout_s=20)


@pytest.mark.parametrize("who", [MAIN, WATCHER], ids=["the cluster's", "a reader"])
def test_who_may_read_everything_sees_all_nodes(kept, who):
    with client_of(kept, who) as client:
        seen = ClusterWatch(client).look()

    assert [(each["name"], each["answers"]) for each in seen["nodes"]] == [
        ("n0", True),
        ("n1", True),
    ]


def test_top_takes_the_token_of_a_reader(kept, tmp_path, capsys, monkeypatch):
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(WATCHER.token.as_text())
    monkeypatch.setenv("GD2FS_TOKEN_FILE", str(token))

    assert main(["top", "--once", "--cp", kept.cp, "--cluster", kept.name]) == 0
    assert "2 of 2 nodes answer" in capsys.readouterr().out


def test_who_may_read_a_part_sees_nothing_of_the_whole(kept):
    with client_of(kept, A_ADMIN) as client, pytest.raises(InvalidRequest) as refusal:
        ClusterWatch(client).look()

    assert "report: denied" in str(refusal.value) and "`read` in all" in refusal.value.hint


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "show"},
        {"do": "set", "key": "default.ttl", "value": "1h"},
        {"do": "facts"},
        {"do": "report", "more": 1},
        {"do": "curves", "more": 1},
        {"do": "trace", "step": "take"},
        {"do": "set", "do ": "report", "key": "default.ttl", "value": "1h"},
    ],
    ids=str,
)
def test_a_reader_changes_nothing_and_asks_nothing_else(kept, request_):
    with client_of(kept, WATCHER) as client, pytest.raises(InvalidRequest) as refusal:
        client.settings(request_)

    assert "denied by every node" in str(refusal.value)


def test_a_reader_drains_no_node(kept):
    with client_of(kept, WATCHER) as client, pytest.raises(InvalidRequest, match="denied"):
        client.drain("n1")
