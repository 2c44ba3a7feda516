"""The metrics of a GPU worker: what it has answered, how long each stage took, and what its device holds."""

from collections import Counter as Tallied
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from pipeline.inference.vitals import Vitals
from pipeline.rows import BatchTiming, Completion, Status
from workers.metrics.labelled import labelled

_STAGES = ("load", "encode", "prefix", "prefill", "decode", "detokenize")
_TOKENS = ("computed", "reused", "output")
_OUTCOMES = (Status.OK, Status.TRUNCATED, Status.ERROR)
#: Seconds, from a small batch of a small model to a large one of a large model.
_SECONDS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class AnsweredMetrics:
    """`count` is told of each batch that is recorded; all outcomes and kinds are there from the start, at 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._batches = Counter("pipeline_batches_answered", "Batches whose answers are recorded.", registry=registry)
        self._rows = Counter("pipeline_rows", "Rows that ended, by outcome.", ["outcome"], registry=registry)
        self._tokens = Counter(
            "pipeline_tokens", "Prompt tokens computed and reused, and answer tokens.", ["kind"], registry=registry
        )
        self._spared = Counter(
            "pipeline_padding_spared_tokens",
            "Places that would hold padding, were a batch's prompts padded to the longest.",
            registry=registry,
        )
        self._seconds = Histogram(
            "pipeline_stage_seconds",
            "Seconds of a stage in one batch.",
            ["stage"],
            buckets=_SECONDS,
            registry=registry,
        )
        for outcome in _OUTCOMES:
            self._rows.labels(outcome.value)
        for kind in _TOKENS:
            self._tokens.labels(kind)
        for stage in _STAGES:
            self._seconds.labels(stage)

    def count(self, completions: Sequence[Completion], timing: BatchTiming) -> None:
        self._batches.inc()
        for outcome, rows in Tallied(completion.status for completion in completions).items():
            self._rows.labels(outcome.value).inc(rows)
        for kind in _TOKENS:
            self._tokens.labels(kind).inc(getattr(timing, f"{kind}_tokens"))
        for stage in _STAGES:
            self._seconds.labels(stage).observe(getattr(timing, f"{stage}_s"))
        lengths = [completion.prompt_tokens for completion in completions if completion.prompt_tokens]
        self._spared.inc(max(lengths, default=0) * len(lengths) - sum(lengths))


class DeviceMetrics(Collector):
    """Asked at each look: how long the device was busy, and what is kept on it."""

    def __init__(self, busy_s: Callable[[], float], vitals: Callable[[], Vitals]) -> None:
        self._busy_s, self._vitals = busy_s, vitals

    def collect(self) -> Iterator[Metric]:
        vitals = self._vitals()
        yield CounterMetricFamily(
            "pipeline_busy_seconds", "Seconds at batches; its rate is the busy share.", self._busy_s()
        )
        yield CounterMetricFamily(
            "pipeline_prefix_evictions", "Prefixes that left a memory for lack of room.", vitals.evictions
        )
        yield labelled("pipeline_prefix_bytes", "Keys and values of shared prefixes.", "memory", vitals.prefix_bytes)
        yield labelled("pipeline_lanes", "Rows that can be decoded at once, and that are.", "state", vitals.lanes)
        yield labelled("pipeline_device_memory_bytes", "Of the device; none of a CPU.", "state", vitals.device_bytes)
