"""The metrics of a dispatcher: what waits, who lives, what is in the broker, and what had to be taken back."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pipeline.errors import PipelineError
from pipeline.store.database import Database
from pipeline.store.dispatch import Recovered
from pipeline.store.open_work import OPEN_BATCHES, OPEN_SHARDS, open_work, total
from pipeline.store.queries import count_jobs
from pipeline.store.records import JobState, Role
from pipeline.store.registry import Registry
from workers.metrics.labelled import labelled

_OF_BATCHES = (
    ("pipeline_queue_batches", "parts", "Batches that are not done."),
    ("pipeline_queue_rows", "rows", "Rows of batches that are not done."),
    ("pipeline_queue_tokens", "tokens", "Own prompt tokens of batches that are not done."),
)


class QueuedMetrics(Collector):
    """Asked of the database at each look; without it, what the process knows by itself is still told."""

    def __init__(
        self,
        database: Database,
        recovered: Callable[[], Recovered],
        broker: Callable[[], tuple[Mapping[str, int] | None, int]],
    ) -> None:
        """`recovered` since the process started; `broker` gives messages by queue and bytes used, as last seen."""
        self._database, self._registry = database, Registry(database)
        self._recovered, self._broker = recovered, broker

    def collect(self) -> Iterator[Metric]:
        recovered, (queued, used) = self._recovered(), self._broker()
        for name, text, count in (
            ("pipeline_lease_expiries", "Shards and batches whose holder fell silent.", recovered.expired),
            ("pipeline_lost_messages", "Messages that nobody took, and that were sent again.", recovered.lost),
            ("pipeline_bisections", "Batches that killed their workers and were halved.", recovered.split),
            ("pipeline_deadly_batches", "Batches down to one prompt that ended as errors.", recovered.dead),
        ):
            yield CounterMetricFamily(name, text, count)
        yield labelled("pipeline_broker_messages", "Messages in the broker.", "queue", queued or {})
        yield GaugeMetricFamily("pipeline_broker_memory_bytes", "Memory that the broker uses.", used)
        try:
            families = [*self._work(), *self._members()]
        except PipelineError:
            families = []
        yield GaugeMetricFamily("pipeline_database_up", "Whether the database answered this look.", bool(families))
        yield from families

    def _work(self) -> Iterator[Metric]:
        """Of jobs that are not paused. Of rows that are not encoded yet, nobody knows the tokens."""
        work = open_work(self._database).values()
        batches = {state: total(of.batches[state] for of in work) for state in OPEN_BATCHES}
        for name, field, text in _OF_BATCHES:
            counts = {state: getattr(amount, field) for state, amount in batches.items()}
            yield labelled(name, text, "state", counts)
        shards = {state: total(of.shards[state] for of in work).parts for state in OPEN_SHARDS}
        yield labelled("pipeline_queue_shards", "Shards that are not encoded.", "state", shards)
        jobs = dict.fromkeys(JobState, 0) | count_jobs(self._database)
        yield labelled("pipeline_jobs", "Jobs in the database.", "state", jobs)

    def _members(self) -> Iterator[Metric]:
        alive = dict.fromkeys(Role, 0) | Counter(record.role for record in self._registry.alive())
        yield labelled(
            "pipeline_workers", "Processes that gave a sign of life lately.", "role", dict.fromkeys(Role, 0) | alive
        )
