"""What most tests start from: nodes of a cluster inside this process, and a name of one's own."""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from gd2fs import Client
from gd2fs.testing import LocalNodes
from gd2fs.testing.certificates import Certificates
from gd2fs.tls import Tls
from gd2fs.ucx import libraries_in_wheels

# Started in the background a shell has it ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Else UCX changes this process's calls about memory, which nothing here needs.
os.environ.setdefault("UCX_MEM_MMAP_HOOK_MODE", "none")

# These run in environments of their own: `make test-engines`.
collect_ignore = ["engines/sglang", "engines/vllm"]

TIMEOUT_S = 20.0  # patience of tests on a busy machine; what is about time sets its own

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def one_node() -> Iterator[LocalNodes]:
    with LocalNodes(1) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def three_nodes() -> Iterator[LocalNodes]:
    with LocalNodes(3) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def shared_node() -> Iterator[LocalNodes]:
    """One whose memory its clients may map."""
    with LocalNodes(1, arena="memfd") as nodes:
        yield nodes


@pytest.fixture(scope="session")
def shm_client(shared_node: LocalNodes) -> Iterator[Client]:
    with shared_node.client(timeout_s=TIMEOUT_S, transport="shm") as client:
        yield client


@pytest.fixture(scope="session")
def unix_client(three_nodes: LocalNodes) -> Iterator[Client]:
    with three_nodes.client(timeout_s=TIMEOUT_S, transport="unix") as client:
        yield client


@pytest.fixture(scope="session")
def tcp_client(three_nodes: LocalNodes) -> Iterator[Client]:
    with three_nodes.client(timeout_s=TIMEOUT_S, transport="tcp") as client:
        yield client


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """`ca`, and `node` for loopback, signed by it."""
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.add("node")
    return made


@pytest.fixture(scope="session")
def tls_client(certificates: Certificates) -> Iterator[Client]:
    """Of three nodes under TLS that want a certificate of their clients."""
    cert, key, ca = (certificates.path(file) for file in ("node.crt", "node.key", "ca.crt"))
    settings = Tls(cert=cert, key=key, ca=ca, clients="required").native()
    with (
        LocalNodes(3, tls=settings) as nodes,
        nodes.client(
            timeout_s=TIMEOUT_S, transport="tcp", tls_ca=ca, tls_cert=cert, tls_key=key
        ) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def libucp() -> str:
    """Path of the libucp that tests use: that of the wheel which `make test` installs."""
    found = libraries_in_wheels(("libucx",))
    if not found:
        pytest.skip("there is no UCX: `make test` installs the wheel libucx-cu12")
    return str(found[0])


def rdma_client_of(libucp: str, transports: str) -> Iterator[Client]:
    """Of three nodes that move payload by one-sided transfers alone, over these of UCX's."""
    settings = {"use": "on", "library": libucp, "transports": transports}
    how = {"transport": "rdma", "ucx": libucp, "ucx_tls": transports}
    with LocalNodes(3, rdma=settings) as nodes, nodes.client(timeout_s=TIMEOUT_S, **how) as client:
        yield client


@pytest.fixture(scope="session")
def rdma_tcp_client(libucp: str) -> Iterator[Client]:
    yield from rdma_client_of(libucp, "tcp")


@pytest.fixture(scope="session")
def rdma_shm_client(libucp: str) -> Iterator[Client]:
    yield from rdma_client_of(libucp, "posix,sysv")


@pytest.fixture(scope="session")
def one_node_client(one_node: LocalNodes) -> Iterator[Client]:
    with one_node.client(timeout_s=TIMEOUT_S) as client:
        yield client


@pytest.fixture(scope="session")
def three_node_client(three_nodes: LocalNodes) -> Iterator[Client]:
    with three_nodes.client(timeout_s=TIMEOUT_S) as client:
        yield client


@pytest.fixture
def client(three_node_client: Client) -> Client:
    """A live client of three nodes, shared by all tests: use a namespace of your own."""
    return three_node_client


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"test-{next(_numbers)}"


@pytest.fixture
def path(namespace: str) -> str:
    """A path that no other test uses."""
    return f"/{namespace}/file"


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """Whoever takes the log over, as a command that runs in the tests' own process, gives it back
    with the test; one that ran for a fixture of many tests, before the test."""
    _give_log_back()
    yield
    _give_log_back()


def _give_log_back() -> None:
    logger = logging.getLogger("gd2fs")
    logger.setLevel(logging.NOTSET)
    logger.handlers[:], logger.propagate = [], True


@pytest.fixture
def logged() -> list[str]:
    """What gd2fs logs, line by line; also where a command of ours has taken its log over."""
    handler, logger = _Lines(), logging.getLogger("gd2fs")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return handler.lines
