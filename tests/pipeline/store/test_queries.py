import pytest
from sqlalchemy import event, update

from pipeline.buckets import PlannedBatch
from pipeline.errors import NotFoundError
from pipeline.rows import Status
from pipeline.store.queries import (
    active_owners,
    find_job,
    list_jobs,
    list_shards,
    newest_jobs,
    progress,
    recent_rate,
    stream_results,
)
from pipeline.store.records import BatchState, Progress
from pipeline.store.schema import jobs as job_table
from pipeline.store.transactions import database_name, writing


def test_a_job_is_found_by_name_id_start_of_id_and_last(ledger, engine, clock):
    jobs = []
    for name in ("first", "second", "third"):
        jobs.append(ledger.create_job(name, "{}", "", "", ""))
        clock.now += 1
    for job in jobs:
        assert find_job(engine, job.name) == job
        assert find_job(engine, job.id) == job
        assert find_job(engine, job.id[:12]) == job
    assert find_job(engine, "last") == jobs[2]
    assert list_jobs(engine) == jobs[::-1]


def test_all_jobs_have_the_progress_of_each_in_as_many_statements_as_one(ledger, engine, road, clock):
    made = [ledger.create_job("empty", "{}", "", "", "")]
    for name in ("encoded", "answered", "cancelled"):
        clock.now += 1
        made.append(road.encoded_job(failed=[3], name=name))
    road.answer(made[2], batches=2, errors=[1])
    ledger.cancel(made[3].id, road.keys)
    sent = []
    event.listen(engine, "before_cursor_execute", lambda *told: sent.append(told[2]))
    found = newest_jobs(engine)
    assert len([statement for statement in sent if statement.startswith("SELECT")]) == 3
    assert [job for job, _ in found] == list_jobs(engine)
    assert [figures for _, figures in found] == [progress(engine, job.id) for job, _ in found]
    assert newest_jobs(engine, 2) == found[:2]


def test_jobs_of_one_second_have_a_last_one(ledger, engine):
    ledger.create_job(None, "{}", "", "", "")
    newest = ledger.create_job(None, "{}", "", "", "")
    assert find_job(engine, "last") == newest


def test_a_name_goes_before_an_id(ledger, engine):
    first = ledger.create_job("first", "{}", "", "", "")
    impostor = ledger.create_job(first.id, "{}", "", "", "")
    assert find_job(engine, first.id) == impostor


def test_no_jobs_at_all(engine):
    for ref in ("last", "nightly", ""):
        with pytest.raises(
            NotFoundError, match=r"There are no jobs yet in .*\. `pipeline submit --help` tells how to begin\."
        ):
            find_job(engine, ref)


def test_an_unknown_job_is_told_its_nearest_name(ledger, engine):
    ledger.create_job("nightly-reviews", "{}", "", "", "")
    with pytest.raises(NotFoundError) as caught:
        find_job(engine, "nightly-review")
    assert str(caught.value) == 'There is no job "nightly-review". Did you mean "nightly-reviews"?'
    for ref in ("zzz", "", "%"):
        with pytest.raises(NotFoundError) as caught:
            find_job(engine, ref)
        place = database_name(engine)
        assert str(caught.value) == f'There is no job "{ref}". `pipeline jobs` lists those in {place}.'


def test_an_ambiguous_start_is_told(ledger, engine):
    starts = [ledger.create_job(None, "{}", "", "", "").id[0] for _ in range(17)]
    shared = next(start for start in starts if starts.count(start) > 1)
    with pytest.raises(NotFoundError, match=f'Several jobs have an id that starts with "{shared}"'):
        find_job(engine, shared)


def test_a_new_job_has_no_progress(ledger, engine):
    job = ledger.create_job(None, "{}", "", "", "")
    assert progress(engine, job.id) == Progress(
        total=None,
        batches=dict.fromkeys(BatchState, 0),
        seconds=dict.fromkeys(("encode", "queue", "load", "prefix", "prefill", "decode", "detokenize", "record"), 0),
    )


def test_progress_adds_up_batches_and_shards(engine, road, clock):
    job = road.encoded_job(n_rows=9, shard_rows=3, failed=[8])
    started = clock.now
    road.answer(job, batches=1)
    clock.now += 100
    road.answer(job, batches=2, errors=[3])
    clock.now += 100
    road.ledger.claim(job.id, "worker", 60)
    told = progress(engine, job.id)
    assert (told.total, told.ok, told.truncated, told.error, told.cancelled, told.finished) == (9, 4, 0, 2, 0, 6)
    assert {state: n for state, n in told.batches.items() if n} == {
        BatchState.DONE: 3, BatchState.LEASED: 1, BatchState.PENDING: 1
    }  # fmt: skip
    assert (told.computed_tokens, told.reused_tokens, told.output_tokens) == (30, 12, 9)
    assert told.seconds == pytest.approx(
        {
            "encode": 1.8,
            "queue": 0,
            "load": 0,
            "prefix": 0.6,
            "prefill": 0.9,
            "decode": 1.2,
            "detokenize": 1.5,
            "record": 0,
        }
    )
    assert (told.started_at, told.finished_at) == (started, started + 100)


def test_progress_of_no_job(engine):
    with pytest.raises(NotFoundError, match="There is no job nope"):
        progress(engine, "nope")


def test_results_come_in_the_order_of_the_input(engine, road):
    job = road.encoded_job(n_rows=9, failed=[4])
    road.encoded_job(n_rows=9)
    road.answer(job)
    expected = [road.outcome(row_id, Status.ERROR if row_id == 4 else Status.OK) for row_id in range(9)]
    assert list(stream_results(engine, job.id)) == expected
    assert list(stream_results(engine, job.id, limit=2)) == expected[:2]
    assert list(stream_results(engine, job.id, Status.ERROR)) == [expected[4]]
    assert list(stream_results(engine, job.id, Status.OK, limit=5)) == expected[:4] + expected[5:6]


def test_results_may_be_streamed_while_more_are_recorded(engine, road):
    job = road.encoded_job(n_rows=9)
    road.answer(job, batches=1)
    stream = stream_results(engine, job.id)
    assert next(stream).row_id == 0
    road.answer(job)
    assert [row.row_id for row in stream] == [1]


def test_shards_and_owners(engine, road):
    job = road.encoded_job(n_rows=7, shard_rows=3)
    assert [(shard.shard_no, shard.row_from, shard.row_to) for shard in list_shards(engine, job.id)] == [
        (0, 0, 3), (1, 3, 6), (2, 6, 7)
    ]  # fmt: skip
    assert active_owners(engine, job.id) == []
    for owner in ("b", "a", "b"):
        road.ledger.claim(job.id, owner, 60)
    assert active_owners(engine, job.id) == ["a", "b"]


def test_the_rate_is_the_jobs_own_or_that_of_the_newest_that_asked_the_same(engine, ledger, road, clock):
    old, other = road.encoded_job(n_rows=4), road.encoded_job(n_rows=4)
    labels = '{"choices": ["a", "b"]}'
    with writing(engine) as connection:
        connection.execute(update(job_table).where(job_table.c.id == other.id).values(spec_json=labels))
    clock.now += 1
    new = road.encoded_job(n_rows=6)
    road.answer(other)
    assert recent_rate(engine, new) is None
    road.answer(old)
    told = recent_rate(engine, new)
    assert (told.rows, told.tokens, told.own_tokens) == (4, 3 * 17, 40)
    assert told.seconds == pytest.approx(3 * 0.9)
    road.answer(new, batches=1)
    assert recent_rate(engine, new).rows == 2


def test_rows_that_share_an_answer_count_as_one_prompt_of_the_rate(engine, ledger, road):
    job = road.job(n_rows=6, shard_rows=6)
    planned = [PlannedBatch((0, 2, 3, 1), 20, prompt_rows=(3, 1)), PlannedBatch((4, 5), 20)]
    ledger.record_encoding(job.id, 0, planned, [], 0.5)
    road.answer(job)
    told = recent_rate(engine, job)
    assert (told.rows, told.prompts, told.own_tokens) == (6, 4, 40)
