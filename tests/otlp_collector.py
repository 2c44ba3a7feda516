"""A collector of traces that keeps them in memory, as its clients sent them."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True)
class Told:
    """A span; times are nanoseconds since the epoch, facts lose their `pipeline.`."""

    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    begun_at: int
    ended_at: int
    facts: dict[str, object]
    links: list[bytes]  #: ids of other traces


@dataclass
class Collector:
    url: str
    spans: list[Told] = field(default_factory=list)
    services: set[str] = field(default_factory=set)

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services.add(_facts(resource.resource.attributes)["service.name"])
            self.spans += [_told(span) for scope in resource.scope_spans for span in scope.spans]

    def traces(self, job: str) -> dict[int, list[Told]]:
        """By batch, of those that were recorded: the root, then the others in the order in which they began."""
        found = defaultdict(list)
        for span in sorted(self.spans, key=lambda span: (span.begun_at, span.ended_at)):
            if span.facts["job"] == job:
                found[span.facts["batch"]].append(span)
        roots = {batch: [span for span in spans if span.name == "batch"] for batch, spans in found.items()}
        return {
            batch: [*roots[batch], *(span for span in spans if span.name != "batch")]
            for batch, spans in found.items()
            if roots[batch]
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nobody wants to read it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield collector
        server.shutdown()
        thread.join()


def _told(span: trace_pb2.Span) -> Told:
    facts = {name.removeprefix("pipeline."): value for name, value in _facts(span.attributes).items()}
    links = [link.trace_id for link in span.links]
    begun_at, ended_at = span.start_time_unix_nano, span.end_time_unix_nano
    return Told(span.name, span.trace_id, span.span_id, span.parent_span_id, begun_at, ended_at, facts, links)


def _facts(attributes) -> dict[str, object]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}
