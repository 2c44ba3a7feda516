import re

import pytest
from sqlalchemy import case, event, update

from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.agreement import ChangedRows, agreement
from pipeline.store.schema import results
from pipeline.store.transactions import writing


@pytest.fixture
def answered(ledger, road):
    """A job with these (key, label, score) as its rows; no label is an error."""

    def make(name: str, *answers: tuple[str, str | None, float | None]):
        job = road.job(n_rows=len(answers), shard_rows=len(answers), name=name)
        road.encode(job, batch_rows=len(answers))
        completions = [
            Completion(row_id, key, Status.OK, label, label, score)
            if label
            else Completion(row_id, key, Status.ERROR, error_type="bad", error="It is bad.")
            for row_id, (key, label, score) in enumerate(answers)
        ]
        assert ledger.finish(ledger.claim(job.id, "a", 60), completions, BatchTiming(), "cpu")
        return job

    return make


@pytest.fixture
def pair(answered):
    """By key, and in another order: a and b agree, c and d do not, e fails in the second, x and y are in one alone."""
    first = [("a", "yes", 0.5), ("b", "no", 0.5), ("c", "yes", 0.5), ("d", "no", 0.5), ("e", "no", 0.5), ("x", "no", 1)]
    second = [
        ("y", "no", 1.0),
        ("d", "yes", 0.9),
        ("c", "no", 0.9),
        ("b", "no", 0.5),
        ("a", "yes", 0.7),
        ("e", None, None),
    ]
    return answered("one", *first), answered("two", *second)


def test_how_far_two_jobs_agree(engine, pair):
    found = agreement(engine, *pair)
    assert (found.both, found.only_first, found.only_second) == (5, 1, 1)
    assert (found.changed, found.status, found.label, found.text) == (3, 1, 3, 3)
    assert found.share == pytest.approx(0.4)
    assert found.confusion == {("yes", "yes"): 1, ("no", "no"): 1, ("yes", "no"): 1, ("no", "yes"): 1}
    assert found.kappa == pytest.approx(0.0)
    assert found.score_change == pytest.approx(0.25)


def test_kappa_is_that_of_the_book(answered, engine):
    """20 times both say yes, 15 times both no, 5 and 10 times they differ: 0.4."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    jobs = [
        answered(name, *((str(n), pair[side], None) for n, pair in enumerate(pairs)))
        for side, name in enumerate(("one", "two"))
    ]
    found = agreement(engine, *jobs)
    assert found.kappa == pytest.approx(0.4)
    assert found.score_change is None
    same = agreement(engine, jobs[0], jobs[0])
    assert (same.kappa, same.share, same.changed) == (1.0, 1.0, 0)


def test_of_scored_texts_the_mean_change_is_told_and_no_agreement(answered, engine):
    jobs = [answered(name, ("a", None, None), ("b", None, None), ("c", None, None)) for name in ("one", "two")]
    with writing(engine) as connection:
        logprob = case((results.c.row_id == 2, None), (results.c.job_id == jobs[0].id, -2.0), else_=-2.5)
        connection.execute(update(results).values(logprob=logprob))
    found = agreement(engine, *jobs)
    assert (found.both, found.changed, found.share, found.logprob_change) == (3, 0, None, -0.5)


def test_of_several_questions_answers_are_compared_by_key_and_question(answered, engine):
    one = answered("one", ("a", "yes", None), ("a", "no", None))
    two = answered("two", ("a", "yes", None), ("a", "yes", None))
    with writing(engine) as connection:
        named = case((results.c.row_id == 0, "mood"), else_="fits")
        connection.execute(update(results).values(question=named))
    found = agreement(engine, one, two)
    assert (found.both, found.only_first, found.only_second, found.changed) == (2, 0, 0, 1)
    rows = [row for block in ChangedRows(engine, one, two).blocks() for row in block.rows]
    assert [tuple(row[:3]) for row in rows] == [("a", "fits", "label")]


def test_rows_that_differ_are_side_by_side(engine, pair):
    blocks = list(ChangedRows(engine, *pair).blocks())
    rows = [dict(zip(block.names, row, strict=True)) for block in blocks for row in block.rows]
    assert [(row["key"], row["change"]) for row in rows] == [
        ("c", "label"),
        ("d", "label"),
        ("e", "status"),
        ("x", "only in the first"),
        ("y", "only in the second"),
    ]
    assert rows[0] == {
        "key": "c", "question": None, "change": "label", "first_row_id": 2, "second_row_id": 2,
        "first_status": "ok", "second_status": "ok",
        "first_label": "yes", "second_label": "no", "first_score": 0.5, "second_score": 0.9,
        "first_output": "yes", "second_output": "no", "first_error": None, "second_error": None,
    }  # fmt: skip
    assert (rows[2]["first_error"], rows[2]["second_error"], rows[2]["second_label"]) == (None, "It is bad.", None)
    assert (rows[4]["first_row_id"], rows[4]["second_row_id"]) == (None, 0)


def test_sqlite_finds_keys_by_an_index_that_it_makes(engine, pair):
    """Without one, ten million rows would be looked through ten million times."""
    if engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL hashes keys.")
    asked = []
    event.listen(engine, "before_cursor_execute", lambda *told: asked.append(told[2:4]))
    agreement(engine, *pair)
    list(ChangedRows(engine, *pair).blocks())
    joins = [(sql, values) for sql, values in asked if "JOIN" in sql]
    with engine.connect() as connection:
        plans = [str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values).all()) for sql, values in joins]
    assert len(plans) == 3
    assert all(re.search(r"AUTOMATIC COVERING INDEX \([^)]*key=\?", plan) for plan in plans), plans
