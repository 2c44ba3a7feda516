"""Who tells a collector of traces what becomes of the batches that this process takes up."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.answering import NOBODY, Closed, Witness
from pipeline.settings import Settings
from pipeline.store.database import Database
from pipeline.store.moments import moments
from pipeline.store.records import Claim
from workers.tracing.spans import of_answers, of_shard, of_waiting, root

if TYPE_CHECKING:
    from workers.tracing.exporter import Exporter

_LOG = logging.getLogger(__name__)


@contextmanager
def traced(database: Database, settings: Settings, warn: Callable[[str], None]) -> Iterator[Witness]:
    """Until the block ends, or a moment longer, and nobody where no traces are asked for. `warn` is told in a sentence
    why there are none although they are."""
    exporter = _exporter(warn) if settings.traces else None
    if exporter is None:
        yield NOBODY
        return
    traces = Traces(database, exporter)
    try:
        yield Witness(traces.taken, traces.closed)
    finally:
        exporter.close()


class Traces:
    """Whatever goes wrong here, a batch goes on."""

    def __init__(self, database: Database, exporter: "Exporter") -> None:
        self._database, self._exporter = database, exporter

    def taken(self, claim: Claim) -> None:
        """At once, so that it is known of an attempt that dies."""
        taken_at, batch = time.time(), (claim.job_id, claim.batch_no)
        with _unharmed():
            if self._exporter.takes(batch) and (now := moments(self._database, *batch)) and now.fence == claim.fence:
                self._exporter.tell(batch, of_waiting(claim, now, taken_at))

    def closed(self, closed: Closed) -> None:
        """Whoever records a batch, which is one alone, tells what all its attempts have in common."""
        claim = closed.answered.claim
        batch = (claim.job_id, claim.batch_no)
        with _unharmed():
            if not self._exporter.takes(batch) or not (now := moments(self._database, *batch)):
                return
            self._exporter.tell(batch, of_answers(closed, now))
            if closed.recorded:
                self._exporter.tell(batch, of_shard(claim, now))
                half_of = None if now.half_of is None else (claim.job_id, now.half_of)
                self._exporter.tell_root(batch, root(closed, now), half_of)


def _exporter(warn: Callable[[str], None]) -> "Exporter | None":
    try:
        from workers.tracing.exporter import Exporter

        return Exporter(warn)
    except ModuleNotFoundError:
        warn(
            "OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, which this installation cannot send; "
            "`pip install 'pipeline[otel]'` brings what is missing."
        )
    except ValueError as error:
        warn(f"No traces are sent, since OpenTelemetry does not understand one of the OTEL_* variables: {error}")
    return None


@contextmanager
def _unharmed() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        _LOG.warning("A batch has no trace: %s", error)
