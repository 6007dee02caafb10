"""Real nodes whose token is changed while they serve; and that no secret shows meanwhile."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gd2fs import Client
from gd2fs.errors import GD2FSError, InvalidRequest
from gd2fs.testing.cluster import Cluster, free_ports
from security.guarded import A_READER, MAIN, holder

NEXT = holder("main-2", "cluster")
PAGE = b"p" * 10_000
PATIENCE_S = 30.0
TENANTS = """
[tokens.a-reader]
secret_hash = "{}"
rights = "read"
namespaces = ["a"]
"""

pytestmark = pytest.mark.slow


def eventually(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def token(tmp_path) -> Path:
    """The cluster's, as all nodes read it."""
    file = tmp_path / "token"
    file.write_text(MAIN.token.as_text())
    file.chmod(0o600)
    return file


@pytest.fixture
def cluster(tmp_path, token):
    tenants = tmp_path / "tenants.toml"
    tenants.write_text(TENANTS.format(A_READER.token.key.hex()))
    tenants.chmod(0o600)
    admin = free_ports(1)[0]
    options = ("--token-file", str(token), "--tenants", str(tenants), "--replicas", "2")
    with Cluster(2, "64MiB", str(tmp_path), arena="plain", options=options) as running:
        running.members[0].kill(signal.SIGTERM)
        running.members[0].command += ["--admin", f"127.0.0.1:{admin}"]
        running.members[0].start()
        running.admin = f"http://127.0.0.1:{admin}"
        yield running


def open_client(cluster: Cluster, **shown: object) -> Client:
    return Client(cluster.cp, cluster="test", timeout_s=PATIENCE_S, **shown)


def is_taken(cluster: Cluster, **shown: object) -> bool:
    """By all nodes."""
    try:
        with open_client(cluster, **shown) as client:
            return not any(node.fault for node in client.ping())
    except GD2FSError:
        return False


def is_refused(cluster: Cluster, **shown: object) -> bool:
    """By all nodes."""
    try:
        with open_client(cluster, **shown) as client:
            return all(node.fault for node in client.ping())
    except InvalidRequest:
        return True


def test_a_token_is_changed_without_a_stop(cluster, token, tmp_path):
    mine = tmp_path / "client-token"
    mine.write_text(MAIN.token.as_text())
    with open_client(cluster, token_file=mine) as client:
        client.put("/a/file", PAGE, replicas=2)

        token.write_text(f"{MAIN.token.as_text()}\n{NEXT.token.as_text()}\n")
        assert eventually(lambda: is_taken(cluster, token=NEXT.token))
        assert is_taken(cluster, token=MAIN.token)
        mine.write_text(NEXT.token.as_text())
        token.write_text(NEXT.token.as_text())
        for node in cluster.members:
            node.send(signal.SIGHUP)
        assert eventually(lambda: is_refused(cluster, token=MAIN.token))

        assert client.get("/a/file") == PAGE
        client.put("/a/file", PAGE[::-1], replicas=2)  # the nodes know each other by the new one
        assert client.get("/a/file") == PAGE[::-1]
    with pytest.raises(InvalidRequest, match="token"):
        open_client(cluster, token=MAIN.token)


def test_half_a_file_and_a_tenant_that_is_taken_out(cluster, token, tmp_path):
    token.write_text("main.half")
    (tmp_path / "tenants.toml").write_text("")
    for node in cluster.members:
        node.send(signal.SIGHUP)

    assert eventually(lambda: "tokens stay as they were" in cluster.members[1].last_words())
    assert is_taken(cluster, token=MAIN.token)
    assert is_taken(cluster, token=A_READER.token)
    token.write_text(MAIN.token.as_text())
    assert eventually(lambda: not is_taken(cluster, token=A_READER.token))


def fetch(url: str, token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refusal:
        return str(refusal.read().decode())


def test_no_secret_shows(cluster, tmp_path):
    wrong = holder("main", "cluster").token
    with pytest.raises(InvalidRequest) as refusal:
        open_client(cluster, token=wrong)
    with open_client(cluster, token=MAIN.token) as client:
        shown = [repr(client), repr(client.config), str(client.settings({"do": "show"}))]
        with (
            open_client(cluster, token=A_READER.token) as reader,
            pytest.raises(InvalidRequest) as no,
        ):
            reader.put("/a/file", PAGE)
    shown += [str(refusal.value), refusal.value.hint, str(no.value), no.value.hint]
    shown += [fetch(cluster.admin + "/metrics", text) for text in ("", MAIN.token.as_text())]
    for node in cluster.members:
        process = Path(f"/proc/{node.process.pid}")
        shown += [(process / name).read_text(errors="replace") for name in ("cmdline", "comm")]
        shown += [Path(node.log).read_text(), node.ready_line]

    assert 'gd2fs_refused_streams_total{reason="wrong_proof"} 1.0' in "".join(shown)
    for secret in (MAIN.token.secret, wrong.secret, A_READER.token.secret):
        assert not any(secret in text for text in shown)
        assert not any(MAIN.token.key.hex() in text for text in shown)
