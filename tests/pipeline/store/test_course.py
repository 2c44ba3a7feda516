from dataclasses import replace

import pytest

from pipeline.errors import NotFoundError
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.course import ErrorSample, WorkerCourse, course, error_counts
from pipeline.store.queries import progress


@pytest.fixture
def answered(road, ledger, clock):
    """Eight rows in four batches of two, which take 1, 2, 3 and 4 seconds; the prompts of row n have 10 * (n + 1)
    tokens. Row 2 fails in its batch, and row 8 without one."""
    job = road.encoded_job(n_rows=9, shard_rows=9, failed=[8])
    for seconds in (1, 2, 3, 4):
        claim = ledger.claim(job.id, "worker", 60.0)
        clock.now += seconds
        outcomes = [
            replace(road.outcome(row_id), prompt_tokens=10 * (row_id + 1), output_tokens=row_id % 2)
            for row_id in claim.row_ids
        ]
        if 2 in claim.row_ids:
            outcomes[0] = Completion(2, "k2", Status.ERROR, error_type="numeric", error="Not finite.", prompt_tokens=30)
        timing = BatchTiming(prefill_s=seconds, computed_tokens=5 * seconds, reused_tokens=seconds, output_tokens=2)
        assert ledger.finish(claim, outcomes, timing, "cpu")
    return job


def test_intervals_add_up_to_the_job(engine, answered):
    went = course(engine, answered.id)
    figures = progress(engine, answered.id)
    assert went.figures == figures
    assert (went.n_intervals, went.interval_s) == (4, 2.5)
    assert [(each.place, each.batches, each.rows) for each in went.intervals] == [
        (0, 1, 2),
        (1, 1, 2),
        (2, 1, 2),
        (3, 1, 2),
    ]
    for name in ("computed_tokens", "reused_tokens", "output_tokens"):
        assert sum(each.tokens[name] for each in went.intervals) == getattr(figures, name) > 0
    assert [each.seconds["prefill"] for each in went.intervals] == [1, 2, 3, 4]


def test_each_worker_is_told_of_with_what_it_answered(engine, road, ledger, clock):
    job = road.encoded_job(n_rows=8, shard_rows=8)
    for worker, device, seconds in (("b/gpu.1", "cuda:0", 1), ("a/gpu.2", "cpu", 2), ("b/gpu.1", "cuda:0", 3)):
        claim = ledger.claim(job.id, worker, 60.0)
        clock.now += seconds
        assert ledger.finish(claim, list(map(road.outcome, claim.row_ids)), BatchTiming(), device)
    assert ledger.claim(job.id, "c/gpu.3", 60.0) is not None
    workers = course(engine, job.id).workers
    assert workers == (WorkerCourse("a/gpu.2", "cpu", 1, 2, 2.0), WorkerCourse("b/gpu.1", "cuda:0", 2, 4, 6.0))
    assert [each.rows_per_s for each in workers] == pytest.approx([1, 4 / 6])


def test_lengths_are_of_rows_that_the_model_answered(engine, answered):
    went = course(engine, answered.id)
    assert went.prompt_lengths == {10: 1, 20: 1, 40: 1, 50: 1, 60: 1, 70: 1, 80: 1}
    assert went.answer_lengths == {0: 3, 1: 4}


def test_answers_that_were_copied_have_no_length_here(engine, road, ledger):
    job = road.encoded_job(n_rows=2)
    claim = ledger.claim(job.id, "worker", 60.0)
    copied = [replace(road.outcome(row_id), copied_from="other") for row_id in claim.row_ids]
    assert ledger.finish(claim, copied, BatchTiming(), "cpu")
    went = course(engine, job.id)
    assert (went.prompt_lengths, went.answer_lengths, went.padding) == ({}, {}, {})


def test_padding_is_what_a_block_as_wide_as_the_longest_would_hold(engine, answered):
    """25 %, none (its one answered row is alone), 8.3 % and 6.25 % of their places."""
    assert course(engine, answered.id).padding == {0: 1, 1: 2, 5: 1}


def test_the_slowest_come_first(engine, answered):
    slowest = course(engine, answered.id).slowest
    assert [(batch.batch_no, batch.seconds["prefill"], batch.device) for batch in slowest] == [
        (3, 4.0, "cpu"),
        (2, 3.0, "cpu"),
        (1, 2.0, "cpu"),
        (0, 1.0, "cpu"),
    ]


def test_errors_by_kind_with_the_first_rows_of_each(engine, road):
    job = road.encoded_job(n_rows=9, shard_rows=9, failed=[1, 3, 5, 7])
    (kind,) = course(engine, job.id).errors
    assert (kind.error_type, kind.rows) == ("bad", 4)
    assert kind.samples == tuple(ErrorSample(row, f"k{row}", "It is bad.") for row in (1, 3, 5))
    assert error_counts(engine, job.id) == {"bad": 4}


def test_several_kinds_the_most_frequent_first(engine, answered, ledger, road):
    assert error_counts(engine, answered.id) == {"bad": 1, "numeric": 1}
    assert [kind.error_type for kind in course(engine, answered.id).errors] == ["bad", "numeric"]


def test_of_a_job_that_is_not_begun_there_is_nothing(engine, road):
    job = road.encoded_job()
    went = course(engine, job.id)
    assert (went.intervals, went.slowest, went.errors) == ((), (), ())
    assert (went.prompt_lengths, went.answer_lengths, went.padding) == ({}, {}, {})


def test_an_unknown_job(engine):
    with pytest.raises(NotFoundError):
        course(engine, "nobody")
