"""TLS from the outside: real nodes, the command line, the admin side, and a node that is killed."""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gd2fs import Client
from gd2fs.config import NodeConfig, client_config
from gd2fs.errors import GD2FSError, InvalidRequest, Unavailable
from gd2fs.testing.certificates import Certificates
from gd2fs.testing.cluster import Cluster
from gd2fs.tls import AdminContext, Tls

PATIENCE_S = 20.0
pytestmark = pytest.mark.slow


def options_of(certificates: Certificates, name: str = "node") -> tuple[str, ...]:
    files = {end: certificates.path(f"{name}.{end}") for end in ("crt", "key")}
    ca = certificates.path("ca.crt")
    return ("--tls-cert", files["crt"], "--tls-key", files["key"], "--tls-ca", ca)


def cli(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gd2fs", *words]
    environment = os.environ | variables
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def serial_at(address: str, ca: str) -> str:
    """The number of the certificate that is shown there."""
    host, _, port = address.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)
    try:
        connection.connect()
        shown = connection.sock.getpeercert()
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        return str(shown["serialNumber"])
    finally:
        connection.close()


def admin_of(cluster: Cluster) -> str:
    """Where the first node's admin side is."""
    words = cluster.members[0].ready_line.split()
    return next(word.removeprefix("admin=") for word in words if word.startswith("admin="))


def metric(cluster: Cluster, name: str, ca: str, token: str) -> float:
    """One that has no labels, of the first node."""
    host, _, port = admin_of(cluster).removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(name))


def said(cluster: Cluster) -> str:
    """The last that the first node has told."""
    return cluster.members[0].last_words()


def eventually(is_true: object) -> bool:
    assert callable(is_true)
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > until:
            return False
    return True


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates that a test may replace."""
    made = Certificates(tmp_path_factory.mktemp("own"))
    made.add("node")
    return made


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(f"cluster.{'s' * 43}\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, own: Certificates, token_file: str
) -> Iterator[Cluster]:
    """Three nodes with a token, whose proof is bound to the stream under TLS."""
    folder = tmp_path_factory.mktemp("tls-nodes")
    options = (*options_of(own), "--admin", "127.0.0.1:0", "--replicas", "2")
    options = (*options, "--token-file", token_file)
    with Cluster(3, "64MiB", str(folder), "plain", options=options) as nodes:
        yield nodes


@pytest.fixture
def client(cluster: Cluster, own: Certificates, token_file: str) -> Iterator[Client]:
    with Client(
        cluster.cp,
        cluster="test",
        transport="tcp",
        tls_ca=own.path("ca.crt"),
        token_file=token_file,
        timeout_s=PATIENCE_S,
    ) as client:
        yield client


def test_a_node_says_that_it_has_tls(cluster: Cluster) -> None:
    line = cluster.members[0].ready_line

    assert " tls=on " in line
    assert " admin=https://" in line


def test_the_command_line_reaches_nodes_by_the_environment(
    cluster: Cluster, own: Certificates, token_file: str, tmp_path: Path
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(300_000))
    variables = {
        "GD2FS_CPADDR": cluster.cp,
        "GD2FS_CLUSTER": "test",
        "GD2FS_TRANSPORT": "tcp",
        "GD2FS_TLS_CA": own.path("ca.crt"),
        "GD2FS_TOKEN_FILE": token_file,
    }

    put = cli(["put", str(source), "/files/a"], **variables)
    got = cli(["get", "/files/a", str(copy)], **variables)

    assert (put.returncode, got.returncode) == (0, 0), put.stderr + got.stderr
    assert copy.read_bytes() == source.read_bytes()


def test_without_an_authority_the_node_says_what_is_missing(cluster: Cluster) -> None:
    with pytest.raises(InvalidRequest, match=r"speaks TLS only: give its authority"):
        Client(cluster.cp, cluster="test", tls_ca="")


def test_another_authority_is_refused(cluster: Cluster, own: Certificates) -> None:
    own.add_authority("other")

    with pytest.raises(InvalidRequest, match="signed by nobody who is trusted here"):
        Client(cluster.cp, cluster="test", tls_ca=own.path("other.crt"))


def test_a_node_without_tls_is_said_to_have_none(three_nodes: object, own: Certificates) -> None:
    with pytest.raises(InvalidRequest, match="speaks no TLS"):
        three_nodes.client(tls_ca=own.path("ca.crt"))  # type: ignore[attr-defined]


def test_new_certificates_are_taken_without_a_restart(
    cluster: Cluster, client: Client, own: Certificates, token_file: str
) -> None:
    admin = admin_of(cluster)
    before = serial_at(admin, own.path("ca.crt"))
    client.put("/files/reload", b"x" * 100_000)

    own.add("node")

    assert eventually(lambda: serial_at(admin, own.path("ca.crt")) != before)
    assert client.get("/files/reload") == b"x" * 100_000
    with Client(
        cluster.cp,
        cluster="test",
        transport="tcp",
        tls_ca=own.path("ca.crt"),
        token_file=token_file,
    ) as late:
        assert late.get("/files/reload") == b"x" * 100_000
    assert eventually(lambda: "certificates are read again" in cluster.members[0].last_words())


def test_files_that_are_no_use_change_nothing_and_are_told(
    cluster: Cluster, client: Client, own: Certificates, token_file: str
) -> None:
    key = Path(own.path("node.key"))
    right = key.read_bytes()
    access = (own.path("ca.crt"), Path(token_file).read_text(encoding="ascii").split()[0])

    key.write_text("half writ")

    try:
        assert eventually(lambda: "certificates stay as they were" in said(cluster))
        client.put("/files/same", b"y")
        assert metric(cluster, "gd2fs_tls_stale", *access) == 1
    finally:
        key.write_bytes(right)
    assert "node.key" in said(cluster)
    assert eventually(lambda: metric(cluster, "gd2fs_tls_stale", *access) == 0)


def test_no_byte_is_wrong_when_a_node_is_killed(cluster: Cluster, client: Client) -> None:
    contents = {f"/kill/{at}": os.urandom(200_000 + at) for at in range(12)}
    for path, content in contents.items():
        client.put(path, content)
    wrong, rounds, is_over = [], [0], threading.Event()

    def read_on() -> None:
        while not is_over.is_set():
            for path, content in contents.items():
                try:
                    got = client.get(path, timeout_s=2.0)
                except Unavailable:
                    continue
                if got is not None and got != content:
                    wrong.append(path)
            rounds[0] += 1

    reader = threading.Thread(target=read_on)
    reader.start()
    try:
        node = cluster.members[1]
        assert eventually(lambda: rounds[0] >= 1)
        node.kill(signal.SIGKILL)
        seen = rounds[0]
        assert eventually(lambda: rounds[0] > seen + 1)
        node.start()
        seen = rounds[0]
        assert eventually(lambda: rounds[0] > seen + 1)
    finally:
        is_over.set()
        reader.join()

    assert wrong == []
    assert eventually(lambda: _reads_all(client, contents))


def _reads_all(client: Client, contents: dict[str, bytes]) -> bool:
    try:
        return all(client.get(path) == content for path, content in contents.items())
    except GD2FSError:
        return False


# ---- settings ------------------------------------------------------------------------------------


def test_the_environment_gives_what_is_not_given(certificates: Certificates) -> None:
    ca = certificates.path("ca.crt")
    environment = {"GD2FS_CPADDR": "h", "GD2FS_CLUSTER": "c", "GD2FS_TLS_CA": ca}

    config = client_config(environment=environment)

    assert config.tls == Tls(ca=ca)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"cert": "node.crt"}, "belong together"),
        ({"ca": "nothing.crt"}, "cannot read"),
        ({"clients": "maybe"}, "`--tls-clients` is `maybe`"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    certificates: Certificates, words: dict[str, str], message: str
) -> None:
    is_file = {key: certificates.path(word) for key, word in words.items() if "." in word}

    with pytest.raises(InvalidRequest, match=message):
        Tls(**words | is_file)


def test_a_client_needs_an_authority_for_tls(certificates: Certificates) -> None:
    files = {end: certificates.path(f"node.{end}") for end in ("crt", "key")}

    with pytest.raises(InvalidRequest, match="`--tls-ca` is missing"):
        Client("h", cluster="c", tls_ca="", tls_cert=files["crt"], tls_key=files["key"])


@pytest.mark.parametrize(
    ("files", "clients", "message"),
    [
        ({"ca": "ca.crt"}, "any", "a node needs a certificate"),
        ({"cert": "node.crt", "key": "node.key"}, "required", "nobody says who signs them"),
    ],
)
def test_a_node_is_told_what_is_missing(
    certificates: Certificates, files: dict[str, str], clients: str, message: str
) -> None:
    words = {key: certificates.path(file) for key, file in files.items()}

    with pytest.raises(InvalidRequest, match=message):
        NodeConfig("c", tls=Tls(clients=clients, **words))


def test_a_key_of_another_certificate_is_refused(own: Certificates) -> None:
    own.add("second")

    with pytest.raises(InvalidRequest, match="cannot use"):
        AdminContext(Tls(cert=own.path("node.crt"), key=own.path("second.key")))
