from dataclasses import replace

import pytest
from sqlalchemy.event import listen

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, LabelScore, LikelyToken, Status, TokenLogprob
from pipeline.store import reuse
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import progress, stream_results

HASHES = [bytes([n]) * 16 for n in range(7)]
WHOLE = Completion(
    row_id=0,
    key="k0",
    status=Status.OK,
    output="yes \0 and more",
    label="yes",
    score=0.75,
    finish_reason="choice",
    prompt_tokens=9,
    reused_tokens=4,
    output_tokens=2,
    logprobs=(TokenLogprob(5, "yes", -0.5, (LikelyToken(5, "yes", -0.5),)),),
    scores=(LabelScore("yes", 0.75), LabelScore("no", 0.25)),
    logprob=-1.5,
    perplexity=2.0,
    embedding=b"\0\0\x80?" * 3,
    parsed='{"a": 1}',
    prompt_hash=HASHES[0],
)


@pytest.fixture
def old(ledger, road):
    """A done job: an answer with all that one may have, one that was cut, an error and one without a hash."""
    job = road.job(n_rows=4, shard_rows=4)
    ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1, 2, 3), 9)], [], 0.5)
    cut = Completion(1, "k1", Status.TRUNCATED, "no", prompt_hash=HASHES[1])
    error = Completion(2, "k2", Status.ERROR, error_type="engine", error="Broken.", prompt_hash=HASHES[2])
    claim = ledger.claim(job.id, "worker", 60)
    assert ledger.finish(claim, [WHOLE, cut, error, road.outcome(3)], BatchTiming(), "cpu")
    return job


def test_answers_are_found_by_their_hashes_with_all_that_they_have_and_errors_are_not(ledger, old):
    found = ledger.answers_to("another", HASHES)
    assert set(found) == {HASHES[0], HASHES[1]}
    assert found[HASHES[0]] == replace(WHOLE, copied_from=old.id)
    assert found[HASHES[1]].status is Status.TRUNCATED
    assert ledger.answers_to("another", []) == {}


def test_one_is_found_however_many_rows_have_it_and_of_however_many_jobs(ledger, road, old, monkeypatch):
    monkeypatch.setattr(reuse, "_AT_ONCE", 2)
    for _ in range(2):
        job = road.job(n_rows=2, shard_rows=2)
        ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1), 9)], [], 0.5)
        rows = [replace(WHOLE, row_id=row_id, prompt_hash=HASHES[0]) for row_id in (0, 1)]
        assert ledger.finish(ledger.claim(job.id, "worker", 60), rows, BatchTiming(), "cpu")
    found = ledger.answers_to("another", HASHES)
    assert set(found) == {HASHES[0], HASHES[1]}
    assert found[HASHES[0]].output == WHOLE.output


def test_a_job_finds_its_own_answers_without_a_walk_through_all_of_them(ledger, engine, old):
    if engine.dialect.name != "sqlite":
        pytest.skip("SQLite tells how a statement is carried out, whatever the tables hold")
    asked = []
    listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    found = ledger.answers_to(old.id, HASHES, of_any_job=False)
    assert {prompt_hash: answer.copied_from for prompt_hash, answer in found.items()} == dict.fromkeys(HASHES[:2])
    assert ledger.answers_to("another", HASHES, of_any_job=False) == {}
    by_hash = [(statement, values) for statement, values in asked if "prompt_hash IN" in statement]
    with engine.connect() as connection:
        plans = [str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()) for sql, values in by_hash]
    assert all("(job_id=?)" not in plan and "results_hashed" in plan for plan in plans)
    assert len(plans) == 2


def test_copies_end_their_rows_and_count_as_what_they_are(ledger, engine, road, old):
    job = road.job(n_rows=4, shard_rows=4)
    found = ledger.answers_to("another", HASHES)
    copies = [replace(found[HASHES[n]], row_id=3 - n, key=f"k{3 - n}", logprobs=()) for n in (0, 1)]
    failure = road.outcome(1, Status.ERROR)
    assert ledger.record_encoding(job.id, 0, [PlannedBatch((0,), 4)], [failure], 0.5, copies=copies) == [0]
    road.answer(job)
    assert ledger.complete(job.id)
    figures = progress(engine, job.id)
    assert (figures.ok, figures.truncated, figures.error, figures.copied) == (2, 1, 1, 2)
    assert [row.copied_from for row in stream_results(engine, job.id)] == [None, None, old.id, old.id]
    assert check_integrity(engine, job.id) == []
    # Whichever is found again, it tells of the first one.
    assert ledger.answers_to("another", HASHES)[HASHES[0]].copied_from == old.id


def test_a_shard_whose_rows_are_all_copies_has_no_batch(ledger, engine, road, old):
    job = road.job(n_rows=1, shard_rows=1)
    copy = replace(ledger.answers_to("another", HASHES)[HASHES[0]], key="other", logprobs=())
    assert ledger.record_encoding(job.id, 0, [], [], 0.5, copies=[copy]) == []
    assert ledger.complete(job.id)
    assert check_integrity(engine, job.id) == []


def test_a_copy_is_an_answer_of_a_row_that_has_no_other(ledger, road):
    job = road.job(n_rows=2, shard_rows=2)
    error = road.outcome(1, Status.ERROR)
    with pytest.raises(ValueError, match="is no answer"):
        ledger.record_encoding(job.id, 0, [PlannedBatch((0,), 4)], [], 0.5, copies=[error])
    with pytest.raises(ValueError, match="are not its rows, each once"):
        ledger.record_encoding(job.id, 0, [PlannedBatch((0, 1), 4)], [], 0.5, copies=[road.outcome(1)])
