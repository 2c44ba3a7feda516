from prometheus_client import CollectorRegistry

from pipeline.errors import TryAgain
from pipeline.store.dispatch import Dispatch, Recovered
from pipeline.store.records import Role
from pipeline.store.registry import Registry
from workers.metrics.queued import QueuedMetrics


def read(desk, recovered=None, broker=(None, 0)):
    registry = CollectorRegistry()
    registry.register(QueuedMetrics(desk.database, lambda: recovered or Recovered(), lambda: broker))
    return lambda name, **labels: registry.get_sample_value(name, labels)


def test_what_waits_is_told_in_batches_rows_and_tokens_by_state(desk):
    desk.ledger.take_over(desk.job.id, True)
    desk.encode_all()
    Dispatch(desk.database, desk.keys_of).enqueue_batches(2)
    value = read(desk)
    for unit in ("batches", "rows", "tokens"):
        counts = [value(f"pipeline_queue_{unit}", state=state) for state in ("pending", "enqueued", "leased")]
        assert counts == [4, 2, 0], unit
    assert value("pipeline_queue_shards", state="pending") == 0
    assert (value("pipeline_jobs", state="running"), value("pipeline_jobs", state="done")) == (1, 0)


def test_who_lives_and_what_the_broker_holds(desk):
    Registry(desk.database).enter(Role.GPU, "here", 1, "cpu")
    value = read(desk, broker=({"gpu": 3, "tokenizer": 1}, 4096))
    assert (value("pipeline_workers", role="gpu"), value("pipeline_workers", role="tokenizer")) == (1, 0)
    assert value("pipeline_broker_messages", queue="gpu") == 3
    assert value("pipeline_broker_memory_bytes") == 4096


def test_what_was_taken_back_adds_up(desk):
    value = read(desk, Recovered(1, 2, 3, 4) + Recovered(10, 20, 30, 40))
    names = ("lease_expiries", "lost_messages", "bisections", "deadly_batches")
    assert [value(f"pipeline_{name}_total") for name in names] == [11, 22, 33, 44]


def test_a_database_that_is_away_hides_nothing_else(desk, monkeypatch):
    def away(database):
        raise TryAgain("It is away.")

    value = read(desk, Recovered(expired=1))
    assert value("pipeline_database_up") == 1
    monkeypatch.setattr("workers.metrics.queued.open_work", away)
    assert value("pipeline_database_up") == 0
    assert value("pipeline_lease_expiries_total") == 1
    assert value("pipeline_jobs", state="running") is None
