"""What a collector is told of attempts that do not come to an end, or come too late, on a real ledger."""

import socket
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from pipeline.answering import NOBODY, closed
from pipeline.buckets import PlannedBatch
from pipeline.errors import TryAgain
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.settings import Settings
from pipeline.store.dispatch import Dispatch
from pipeline.store.schema import shards
from pipeline.store.transactions import writing
from tests.otlp_collector import collecting
from workers.tracing import exporter
from workers.tracing.exporter import ids
from workers.tracing.traces import traced

ON, OFF = Settings(traces=True), Settings()
WHOLE = Counter(["batch", "cut", "encode", "queue", "take in", "compute", "detokenize", "record"])


@pytest.fixture
def collector(monkeypatch):
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def tracing(desk, warnings):
    return lambda settings=ON: traced(desk.database, settings, warnings.append)


def close(desk, traces, claim):
    rows = [Completion(row_id, f"k{row_id}", Status.OK, "yes") for row_id in claim.row_ids]
    answered = SimpleNamespace(
        claim=claim,
        device="cpu",
        written=lambda: (rows, BatchTiming(decode_s=0.5)),
        begun_at=desk.job.submitted_at,
        ended_at=desk.job.submitted_at + 0.5,
    )
    traces.closed(closed(answered, desk.ledger.finish))


def test_who_comes_too_late_is_seen_beside_who_was_recorded(desk, tracing, collector):
    desk.encode_all()
    with tracing() as traces:
        late = desk.ledger.claim_batch(desk.job.id, 2, "late", 0.0)
        traces.taken(late)
        holder = desk.ledger.claim_batch(desk.job.id, 2, "holder", 60.0)
        traces.taken(holder)
        for claim in (holder, late):
            close(desk, traces, claim)
    root, *spans = collector.traces("night")[2]
    assert (root.trace_id, root.span_id) == tuple(
        number.to_bytes(size) for number, size in zip(ids(desk.job.id, 2), (16, 8), strict=True)
    )
    assert {span.trace_id for span in spans} == {root.trace_id}
    told = [(span.name, span.facts["attempt"], span.facts["worker"]) for span in spans if "attempt" in span.facts]
    alike = ["take in", "compute", "detokenize", "record"]
    expected = [*((name, 1, "late") for name in ["queue", *alike]), *((name, 2, "holder") for name in alike)]
    assert sorted(told) == sorted(expected)
    assert {span.facts["worker"]: span.facts["outcome"] for span in spans if span.name == "record"} == {
        "late": "too late",
        "holder": "recorded",
    }
    assert (root.facts["attempt"], root.facts["worker"]) == (2, "holder")


def test_a_half_of_what_killed_its_workers_leads_to_their_attempts(desk, tracing, collector):
    desk.ledger.record_encoding(desk.job.id, 0, [PlannedBatch((0, 1, 2), 9)], [], 0.0)
    with tracing() as traces:
        for owner in ("one", "other"):
            claim = desk.ledger.claim_batch(desk.job.id, 0, owner, 60.0)
            traces.taken(claim)
            assert desk.ledger.begin(claim)
            desk.ledger.died(owner, "killed")
        assert desk.ledger.bisect(desk.job.id, desk.keys_of) == (1, 0)
        while claim := desk.ledger.claim(desk.job.id, "third", 60.0):
            close(desk, traces, claim)
    halves = collector.traces("night")
    assert sorted(halves) == [1, 2]
    whole = [span for span in collector.spans if span.facts["batch"] == 0]
    assert [(span.name, span.facts["worker"]) for span in whole if span.name == "take in"] == [
        ("take in", "one"),
        ("take in", "other"),
    ]
    assert [root.links for root, *_ in halves.values()] == [[whole[0].trace_id]] * 2
    assert [root.facts["crashes"] for root, *_ in halves.values()] == [1, 1]


def test_a_batch_of_a_broker_waits_for_its_place_and_then_in_the_queue(desk, tracing, collector):
    desk.encode_all()
    desk.ledger.take_over(desk.job.id, fleet=True)
    assert len(Dispatch(desk.database, desk.keys_of).enqueue_batches(1)) == 1
    with tracing() as traces:
        claim = desk.ledger.claim_batch(desk.job.id, 0, "me", 60.0)
        traces.taken(claim)
    enqueue, queue, take_in = sorted(collector.spans, key=lambda span: span.begun_at)
    assert [enqueue.name, queue.name, take_in.name] == ["enqueue", "queue", "take in"]
    assert (enqueue.ended_at, queue.ended_at) == (queue.begun_at, take_in.begun_at)


def test_what_an_older_version_did_not_write_down_is_left_out(desk, tracing, collector):
    desk.encode_all()
    with writing(desk.database) as connection:
        connection.execute(update(shards).values(cut_at=None, encoded_at=None))
    with tracing() as traces:
        close(desk, traces, desk.ledger.claim(desk.job.id, "me", 60.0))
    assert [span.name for span in collector.traces("night")[0][1:]] == ["compute", "detokenize", "record"]


def test_a_sampler_leaves_out_whole_traces(desk, tracing, collector, monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    desk.encode_all()
    with tracing() as traces:
        while claim := desk.ledger.claim(desk.job.id, "me", 60.0):
            traces.taken(claim)
            close(desk, traces, claim)
    # The lower half of what the last 64 bits of an id can be.
    taken = {batch for batch in range(6) if ids(desk.job.id, batch)[0] % 2**64 < 2**63}
    told = collector.traces("night")
    assert set(told) == taken
    assert [Counter(span.name for span in spans) for spans in told.values()] == [WHOLE] * len(taken)


def test_a_database_that_is_away_costs_a_trace_and_nothing_else(desk, tracing, collector, monkeypatch, caplog):
    def away(*_):
        raise TryAgain("The database is away.")

    monkeypatch.setattr("workers.tracing.traces.moments", away)
    desk.encode_all()
    with tracing() as traces:
        claim = desk.ledger.claim(desk.job.id, "me", 60.0)
        traces.taken(claim)
        close(desk, traces, claim)
    assert collector.spans == []
    assert caplog.messages == ["A batch has no trace: The database is away."] * 2


def test_a_collector_that_does_not_answer_keeps_no_process_for_long(desk, tracing, warnings, monkeypatch):
    desk.encode_all()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        monkeypatch.setattr(exporter, "_PATIENCE_S", 0.01)
        with tracing() as traces:
            traces.taken(desk.ledger.claim(desk.job.id, "me", 60.0))
    assert warnings == ["The last traces were not taken before this process ended."]


def test_a_variable_that_means_nothing_is_told_of(tracing, warnings, collector, monkeypatch):
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-1")
    with tracing() as traces:
        assert traces is NOBODY
    assert warnings == [
        "No traces are sent, since OpenTelemetry does not understand one of the OTEL_* variables: "
        "schedule_delay_millis must be positive."
    ]


def test_where_nobody_asks_nothing_is_imported(tracing, warnings, monkeypatch):
    monkeypatch.delitem(sys.modules, "workers.tracing.exporter")
    with tracing(OFF) as traces:
        assert traces is NOBODY
    assert "workers.tracing.exporter" not in sys.modules
    assert warnings == []
