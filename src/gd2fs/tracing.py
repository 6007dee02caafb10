"""Tracing: the context of a caller's trace, and spans of what the admin side is asked.

The context is W3C's: a `traceparent` header is taken in and handed on whether OpenTelemetry is
there or not. Spans are made where it is installed (``gd2fs[otel]``) and told where they go; else
nothing here costs anything.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

HEADER = "traceparent"
_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LOW_HALF = (1 << 64) - 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Of a caller: its trace, and the span in which it asks."""

    trace_id: int
    span_id: int

    @property
    def low_half(self) -> int:
        """What nodes hand on of the trace's id."""
        return self.trace_id & _LOW_HALF

    @classmethod
    def parse(cls, header: str | None) -> TraceContext | None:
        """Read a `traceparent`; what breaks its rules is as if it were not there."""
        found = _HEADER.fullmatch((header or "").strip())
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        context = cls(int(found[2], 16), int(found[3], 16))
        return context if context.trace_id and context.span_id else None


class Tracer:
    """Makes spans with a provider of OpenTelemetry's, or does nothing without one."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("gd2fs") if provider else None

    @classmethod
    def exporting(cls, name: str) -> Tracer:
        """One that sends its spans by OTLP over HTTP, as the usual `OTEL_*` variables say.

        ``name``: of this node. Without OpenTelemetry it warns, and makes none.
        """
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider as Provider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            log.warning("no traces are sent: install `gd2fs[otel]`, or unset `OTEL_EXPORTER_*`")
            return cls()
        resource = Resource.create({"service.name": "gd2fs", "service.instance.id": name})
        provider = Provider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    @contextmanager
    def span(self, name: str, **attributes: Any) -> Iterator[TraceContext | None]:
        """A span within the one that is open here. Its context; None without OpenTelemetry."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(name, attributes=attributes) as span:
            yield _context_of(span)

    @contextmanager
    def request(self, name: str, headers: Mapping[str, str], **attributes: Any) -> Iterator[Any]:
        """A span of a server's, within that of the caller when its headers name one."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        caller = TraceContextTextMapPropagator().extract(headers)
        with self._tracer.start_as_current_span(
            name, context=caller, kind=SpanKind.SERVER, attributes=attributes
        ) as span:
            yield span

    @property
    def is_tracing(self) -> bool:
        """Does it make spans at all?"""
        return self._tracer is not None

    def stop(self) -> None:
        """Send what is left. Twice is fine."""
        if shutdown := getattr(self._provider, "shutdown", None):
            shutdown()
        self._provider = self._tracer = None


class TracedApp:
    """An ASGI application whose HTTP requests are spans.

    ``paths``: after which spans are named; whatever else is asked for is `HTTP`, so that strangers
    make no names.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer, paths: Collection[str]) -> None:
        self._app = app
        self._tracer = tracer
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._tracer.is_tracing:
            return await self._app(scope, receive, send)
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        path, method = scope["path"], scope["method"]
        attributes = {"http.request.method": method, "url.path": path}
        name = f"{method} {path}" if path in self._paths else "HTTP"
        with self._tracer.request(name, headers, **attributes) as span:

            async def send_noted(message: Message) -> None:
                if span is not None and message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, send_noted)


def _context_of(span: Any) -> TraceContext:
    context = span.get_span_context()
    return TraceContext(context.trace_id, context.span_id)
