"""The door to OpenTelemetry: spans go to a collector by OTLP over HTTP, as the OTEL_* variables say."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

from workers.tracing.spans import Span

#: Seconds in which a process that ends waits for the collector to take what is left.
_PATIENCE_S = 2.0

#: A job's id, and the number of one of its batches.
Key = tuple[str, int]


class Exporter:
    """Spans are sent by a thread of their own; where they cannot be, they are dropped, which `warn` is told of once.

    Raises ValueError for a variable that means nothing.

    A trace's id, and that of its root, are made of what names the batch, so that all processes know them; and so all
    agree on which traces are left out, where OTEL_TRACES_SAMPLER asks for that.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._lock, self._ids, self._collector = threading.Lock(), _Ids(), _Collector(OTLPSpanExporter(), warn)
        resource = Resource.create({SERVICE_NAME: "pipeline", **OTELResourceDetector().detect().attributes})
        self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._collector))
        self._tracer = self._provider.get_tracer("pipeline")
        # What the library says again and again of a collector that is away is said here, once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

    def takes(self, batch: Key) -> bool:
        """Whether its trace is not left out."""
        trace_id, _ = ids(*batch)
        return self._provider.sampler.should_sample(None, trace_id, "batch").decision is Decision.RECORD_AND_SAMPLE

    def tell(self, batch: Key, spans: Sequence[Span]) -> None:
        """Of a batch whose trace it takes, below the root."""
        below = trace.set_span_in_context(NonRecordingSpan(_root_of(batch)), Context())
        with self._lock:
            for span in spans:
                self._tell(span, below)

    def tell_root(self, batch: Key, span: Span, half_of: Key | None) -> None:
        links = () if half_of is None else (Link(_root_of(half_of)),)
        with self._lock, self._ids.of_root(batch):
            self._tell(span, Context(), links)

    def close(self) -> None:
        """Whatever the collector does, this ends soon."""
        thread = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
        if thread.is_alive():
            self._collector.is_away("The last traces were not taken before this process ended.")

    def _tell(self, span: Span, context: Context, links: Sequence[Link] = ()) -> None:
        facts = {f"pipeline.{name}": value for name, value in span.facts.items()}
        begun_at, ended_at = (int(moment * 1e9) for moment in (span.begun_at, span.ended_at))
        begun = self._tracer.start_span(span.name, context, attributes=facts, links=links, start_time=begun_at)
        # By two clocks, which may differ.
        begun.end(max(begun_at, ended_at))


def ids(job_id: str, batch_no: int) -> tuple[int, int]:
    """Of a batch's trace, 128 bits, and of its root, 64 bits."""
    digest = sha256(f"{job_id}/{batch_no}".encode()).digest()
    return int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])


class _Ids(IdGenerator):
    """Drawn at random, but for a root's, which are those of its batch. Not for two threads at once."""

    def __init__(self) -> None:
        self._drawn, self._root = RandomIdGenerator(), (0, 0)

    @contextmanager
    def of_root(self, batch: Key) -> Iterator[None]:
        self._root = ids(*batch)
        try:
            yield
        finally:
            self._root = (0, 0)

    def generate_trace_id(self) -> int:
        return self._root[0] or self._drawn.generate_trace_id()

    def generate_span_id(self) -> int:
        return self._root[1] or self._drawn.generate_span_id()


class _Collector(SpanExporter):
    """Says when spans cannot be sent, and not again before they could be."""

    def __init__(self, exporter: SpanExporter, warn: Callable[[str], None]) -> None:
        self._exporter, self._warn, self._is_well = exporter, warn, True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._is_well = True
        else:
            self.is_away(
                "Traces cannot be sent to where OTEL_EXPORTER_OTLP_ENDPOINT points, and are dropped until they can; "
                "nothing else is lost. It must be a collector that takes OTLP over HTTP, such as http://host:4318."
            )
        return result

    def is_away(self, told: str) -> None:
        if self._is_well:
            self._is_well = False
            self._warn(told)

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _root_of(batch: Key) -> SpanContext:
    trace_id, span_id = ids(*batch)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
