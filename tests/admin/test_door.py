"""How many connections the admin side takes, and how long it waits for them, by real sockets."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gd2fs.admin.app import fault_handlers
from gd2fs.admin.body import body_of
from gd2fs.admin.door import Bounds
from gd2fs.admin.guard import AdminGuard
from gd2fs.admin.refusals import Refusals
from gd2fs.admin.server import AdminServer
from gd2fs.dashboard.routes import Drain
from gd2fs.testing.certificates import Certificates
from gd2fs.tls import Tls
from gd2fs.tokens import KnownToken

PATIENCE_S = 20.0
PAUSE_S = 0.02  # between two bytes of who is slow
SOON = Bounds(handshake_s=0.3, request_s=0.3, untaken_s=0.3, idle_s=1)
FEW = Bounds(connections=6, connections_per_source=3)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * (16 << 20)  # more than all buffers between two sockets hold


def app(refusals: Refusals) -> Starlette:
    async def take(request: Request) -> Response:
        return PlainTextResponse((await body_of(request, Drain, bytes_max=1000)).node)

    guard = AdminGuard([KnownToken("main", bytes(32))])
    return Starlette(
        routes=[
            Route("/", lambda _: PlainTextResponse("ok")),
            Route("/large", lambda _: PlainTextResponse(LARGE)),
            Route("/take", take, methods=["POST"]),
            Route("/guarded", guard.needs("read", take), methods=["POST"]),
        ],
        exception_handlers=fault_handlers(refusals),
    )


@contextlib.contextmanager
def serving(bounds: Bounds, tls: Tls | None = None) -> Iterator[AdminServer]:
    refusals = Refusals()
    words = (tls,) if tls else ()
    server = AdminServer(app(refusals), "127.0.0.1:0", *words, refusals=refusals, bounds=bounds)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server() -> Iterator[AdminServer]:
    with serving(SOON) as running:
        yield running


@pytest.fixture(scope="module")
def tls(tmp_path_factory) -> Tls:
    files = Certificates(tmp_path_factory.mktemp("certificates"))
    files.add("node")
    return Tls(cert=files.path("node.crt"), key=files.path("node.key"))


@pytest.fixture
def secured(tls) -> Iterator[AdminServer]:
    with serving(SOON, tls) as running:
        yield running


def connect(server: AdminServer, source: str = "127.0.0.1") -> socket.socket:
    host, port = server.address.split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S, source_address=(source, 0))


def refused(server: AdminServer) -> dict[str, int]:
    """What was refused, as far as there is some."""
    return {reason: n for reason, n in server.refusals.counts().items() if n}


def eventually(is_true: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.01)
    return True


def is_ended(connection: socket.socket, more: bytes = b"") -> bool:
    """Whether the other side ends it, however slowly ``more`` is sent meanwhile, byte by byte."""
    end = time.monotonic() + PATIENCE_S
    at = 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            at += connection.send(more[at : at + 1]) if more[at:] else 0
        if select.select([connection], [], [], PAUSE_S)[0]:
            try:
                if not connection.recv(1 << 16):
                    return True
            except ConnectionError:
                return True
    return False


def answer_to(connection: socket.socket, request: bytes = GET) -> bytes:
    """What comes first; nothing when the connection is ended."""
    try:
        connection.sendall(request)
        return connection.recv(1 << 16)
    except ConnectionError:
        return b""


HEAD = b"POST /take HTTP/1.1\r\nHost: x\r\n"
DAWDLERS = {
    "nothing at all": (b"", b""),
    "a head byte by byte": (b"GET / HTTP/1.1\r\n", b"x: " + b"y" * 10_000),
    "a head and no body": (HEAD + b"Content-Length: 900\r\n\r\n", b""),
    "a body byte by byte": (HEAD + b"Content-Length: 900\r\n\r\n", b" " * 900),
    "a second head byte by byte": (GET + b"GET / ", b"/" * 10_000),
    "the body of what was refused": (
        HEAD.replace(b"take", b"guarded") + b"Content-Length: 99999\r\n\r\n",
        b" " * 99_999,
    ),
    "a second body": (GET + HEAD + b"Content-Length: 900\r\n\r\n", b""),
}


@pytest.mark.parametrize(("first", "more"), DAWDLERS.values(), ids=DAWDLERS)
def test_who_does_not_come_to_the_end_of_a_request_is_let_go(server, first, more):
    with connect(server) as dawdler:
        dawdler.sendall(first)

        assert is_ended(dawdler, more)
    assert refused(server)["timeout"] == 1
    assert eventually(lambda: server.connections == 0)


def test_who_does_not_take_an_answer_is_let_go(server):
    with connect(server) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(GET.replace(b"/ ", b"/large ", 1))

        assert eventually(lambda: refused(server) == {"timeout": 1})
        assert eventually(lambda: server.connections == 0)


def test_who_takes_an_answer_slowly_but_surely_gets_all_of_it():
    with serving(Bounds()) as server, connect(server) as slow:
        slow.sendall(GET.replace(b"/ ", b"/large ", 1))
        come = 0
        while come < len(LARGE):
            come += len(slow.recv(100_000))

        assert refused(server) == {}


def test_a_connection_serves_many_requests_and_ends_by_itself_when_idle(server):
    host, port = server.address.split(":")
    kept = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    for _ in range(3):
        kept.request("GET", "/")
        assert kept.getresponse().read() == b"ok"

    assert is_ended(kept.sock) and refused(server) == {}
    kept.close()


def test_of_one_source_only_so_many_are_let_in_and_others_are_served():
    with serving(FEW) as server, contextlib.ExitStack() as ends:
        idle = [ends.enter_context(connect(server)) for _ in range(FEW.connections_per_source)]
        assert eventually(lambda: server.connections == len(idle))
        one_more = ends.enter_context(connect(server))
        other = ends.enter_context(connect(server, "127.0.0.2"))

        assert answer_to(one_more) == b"" and answer_to(other).startswith(b"HTTP/1.1 200")
        assert refused(server) == {"too_many": 1}
        idle[0].close()
        assert eventually(lambda: server.connections == len(idle))
        assert answer_to(ends.enter_context(connect(server))).startswith(b"HTTP/1.1 200")


def test_of_all_sources_only_so_many_are_let_in():
    with serving(FEW) as server, contextlib.ExitStack() as ends:
        for at in range(FEW.connections):
            ends.enter_context(connect(server, f"127.0.1.{at + 1}"))
        assert eventually(lambda: server.connections == FEW.connections)
        one_more = ends.enter_context(connect(server, "127.0.0.2"))

        assert answer_to(one_more) == b""
        assert refused(server) == {"too_many": 1}


LATE_GARBAGE = {
    "after a refusal": (b"POST /guarded", b"401"),
    "in a body that is waited for": (b"POST /take", b""),
}


@pytest.mark.parametrize(("ask", "answered"), LATE_GARBAGE.values(), ids=LATE_GARBAGE)
def test_what_stops_being_http_is_ended_counted_and_not_logged(server, caplog, ask, answered):
    head = ask + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect(server) as scanner:
        scanner.sendall(head)
        if answered:
            assert answered in scanner.recv(1 << 16)
        scanner.sendall(b"no length of a chunk\r\n" * 9)
        assert is_ended(scanner)

    assert eventually(lambda: server.connections == 0) and not caplog.records
    assert refused(server)["bad_request"] == 1


def test_what_is_no_http_is_counted_and_not_logged(server, caplog):
    with connect(server) as scanner:
        assert answer_to(scanner, b"\x16\x03\x01\x02\x00\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert is_ended(scanner)

    assert refused(server) == {"bad_request": 1} and not caplog.records


def test_who_leaves_in_the_middle_of_a_body_is_not_logged(server, caplog):
    with connect(server) as leaving:
        leaving.sendall(HEAD + b"Content-Length: 900\r\n\r\n{")
    assert eventually(lambda: server.connections == 0)

    with connect(server) as other:
        assert answer_to(other).startswith(b"HTTP/1.1 200")
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("said", [b"", GET, b"\x16\x03\x01"], ids=["nothing", "plain", "half"])
def test_a_handshake_that_comes_to_nothing_ends_in_time_and_is_counted(secured, said):
    with connect(secured) as stranger:
        stranger.sendall(said)

        assert is_ended(stranger)
    assert eventually(lambda: refused(secured) == {"tls_handshake": 1})
    assert secured.connections == 0


def test_handshakes_under_way_count_for_their_source(tls):
    with serving(FEW, tls) as server, contextlib.ExitStack() as ends:
        for _ in range(FEW.connections_per_source):
            ends.enter_context(connect(server))
        assert eventually(lambda: server.connections == FEW.connections_per_source)
        one_more = ends.enter_context(connect(server))

        assert is_ended(one_more) and refused(server) == {"too_many": 1}


def over_tls(server: AdminServer) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connect(server))


def test_over_tls_a_request_is_answered_and_its_end_is_waited_for_no_longer(secured):
    with over_tls(secured) as well:
        assert answer_to(well).startswith(b"HTTP/1.1 200")
    with over_tls(secured) as dawdler:
        dawdler.sendall(b"GET / ")
        assert is_ended(dawdler)

    assert refused(secured) == {"timeout": 1}


def test_over_tls_who_does_not_take_an_answer_is_let_go(secured):
    with over_tls(secured) as deaf:
        deaf.sendall(GET.replace(b"/ ", b"/large ", 1))

        assert eventually(lambda: refused(secured) == {"timeout": 1})
        assert eventually(lambda: secured.connections == 0)
