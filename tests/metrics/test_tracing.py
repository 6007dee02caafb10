"""Traces: the context of a caller goes on to the nodes; spans where OpenTelemetry is there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from membership.recorded_core import wait_until

from gd2fs.admin.advice_desk import AdviceDesk
from gd2fs.admin.app import make_app
from gd2fs.admin.guard import AdminGuard
from gd2fs.admin.server import AdminServer
from gd2fs.tracing import TraceContext, Tracer

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{SPAN}-01"
LOW_HALF = 0x8448EB211C80319C


@contextmanager
def asked(nodes: Any, tracer: Tracer) -> Iterator[tuple[Any, Any]]:
    """The admin side of a node, and a client of it over HTTP."""
    import httpx

    desk = AdviceDesk(nodes.client)
    collector: Any = None  # nobody asks for the counts here
    server = AdminServer(make_app(collector, str, desk, AdminGuard(), tracer=tracer), "127.0.0.1:0")
    try:
        with httpx.Client(base_url=f"http://{server.address}", timeout=20) as http:
            yield http, nodes.servers[0]
    finally:
        server.stop()
        desk.close()


def advise(http: Any, traceparent: str | None) -> None:
    body = {"advice": "willneed", "namespace": "traced", "keys": ["k"], "wait": True}
    headers = {"traceparent": traceparent} if traceparent else {}
    answer = http.post("/v1/advise", json=body, headers=headers)
    assert answer.status_code == 200, answer.text


def traces_of(server: Any) -> set[int]:
    """Of the advice that it has carried out since the last look, once there is some."""
    found: list[tuple[str, str, int, int]] = []

    def is_there() -> bool:
        found.extend(server.take_slow()[0])
        return any(op == "advise" for op, *_ in found)

    wait_until(is_there, "advice")
    return {trace for op, _, _, trace in found if op == "advise"}


@pytest.fixture
def nodes(shared_node):
    server = shared_node.servers[0]
    with shared_node.client(timeout_s=20) as client:
        client.pages("traced").put(["k"], [b"bytes"])
    server.set_slow(0)
    server.take_slow()
    yield shared_node
    server.set_slow(1_000)


@pytest.fixture
def exporter():
    trace_export = pytest.importorskip(
        "opentelemetry.sdk.trace.export.in_memory_span_exporter", reason="no OpenTelemetry here"
    )
    return trace_export.InMemorySpanExporter()


@pytest.fixture
def tracer(exporter) -> Iterator[Tracer]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = Tracer(provider)
    yield tracer
    tracer.stop()


@pytest.mark.parametrize(
    ("header", "trace_id"),
    [
        (HEADER, int(TRACE, 16)),
        (f"  {HEADER}  ", int(TRACE, 16)),
        (f"01-{TRACE}-{SPAN}-01-what-comes-later", int(TRACE, 16)),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (HEADER.upper(), None),
        ("", None),
        (None, None),
    ],
)
def test_a_context_is_read_as_w3c_writes_it(header, trace_id):
    context = TraceContext.parse(header)

    assert (context and context.trace_id) == trace_id


@pytest.mark.parametrize(("header", "trace"), [(HEADER, LOW_HALF), ("nonsense", 0), (None, 0)])
def test_the_trace_of_advice_reaches_the_nodes(nodes, header, trace):
    with asked(nodes, Tracer()) as (http, server):
        advise(http, header)

        assert traces_of(server) == {trace}


def test_advice_is_a_span_within_that_of_its_caller(nodes, tracer, exporter):
    with asked(nodes, tracer) as (http, server):
        advise(http, HEADER)
        traces = traces_of(server)
        wait_until(lambda: len(exporter.get_finished_spans()) == 2, "two spans")

    inner, outer = exporter.get_finished_spans()
    assert (outer.name, inner.name) == ("POST /v1/advise", "advice willneed")
    assert outer.parent.span_id == int(SPAN, 16)
    assert inner.parent.span_id == outer.context.span_id
    assert {f"{each.context.trace_id:032x}" for each in (inner, outer)} == {TRACE}
    assert outer.attributes["http.response.status_code"] == 200
    assert inner.attributes["gd2fs.names"] == 1
    assert traces == {LOW_HALF}


def test_without_a_caller_the_trace_is_its_own(nodes, tracer, exporter):
    with asked(nodes, tracer) as (http, server):
        advise(http, None)
        (trace,) = traces_of(server)
        wait_until(lambda: len(exporter.get_finished_spans()) == 2, "two spans")

    outer = exporter.get_finished_spans()[-1]
    assert outer.parent is None
    assert trace == outer.context.trace_id & (2**64 - 1) != 0


def test_spans_say_what_was_refused(nodes, tracer, exporter):
    with asked(nodes, tracer) as (http, _):
        assert http.post("/v1/advise", json={}).status_code == 400
        wait_until(lambda: len(exporter.get_finished_spans()) == 1, "a span")

    assert exporter.get_finished_spans()[0].attributes["http.response.status_code"] == 400


def test_what_strangers_ask_for_makes_no_names(nodes, tracer, exporter):
    with asked(nodes, tracer) as (http, _):
        for path in ("/healthz", "/etc/passwd", "/v1/advise/x"):
            http.get(path)
        wait_until(lambda: len(exporter.get_finished_spans()) == 3, "three spans")

    names = [each.name for each in exporter.get_finished_spans()]
    assert names == ["GET /healthz", "HTTP", "HTTP"]


def test_without_opentelemetry_a_node_warns_and_serves():
    code = """
import sys
sys.modules["opentelemetry"] = None
from gd2fs.tracing import Tracer
tracer = Tracer.exporting("a")
with tracer.span("x") as context:
    print(tracer.is_tracing, context)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.stdout == "False None\n"
    assert "install `gd2fs[otel]`" in done.stderr
