"""A job of several questions in the ledger: each answer is a row of its own, and results bring a row's together."""

import csv
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.rows import BatchTiming, Completion, LabelScore, Status
from pipeline.spec import build_spec
from pipeline.store.export import Wanted, export, preview
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import progress, read_results
from pipeline.store.result_rows import by_question, count_rows, read_columns
from pipeline.store.transactions import writing

QUESTIONS = {"mood": {"choices": "good,bad"}, "gist": {"prompt": "Why?"}, "place": {"embed": "last"}}
FIELDS = {"inputs": "a.csv", "model": "m", "prompt": "{text}", "questions": QUESTIONS}
N = len(QUESTIONS)


@pytest.fixture
def job(ledger, road, tmp_path):
    """Four rows in two shards. Of the first the text is an error, the last has one answer and no other."""
    spec = build_spec(FIELDS)
    job = ledger.create_job("asked", spec.model_dump_json(), "", "", "", questions=list(QUESTIONS))
    for shard_no in (0, 1):
        path = tmp_path / f"{shard_no}.parquet"
        pq.write_table(pa.table({"text": [f"{shard_no}a", f"{shard_no}b"], "mood": ["x", "y"]}), path)
        ledger.add_shard(job.id, shard_no, str(path), 2 * N * shard_no, 2 * N * (shard_no + 1))
    ledger.finish_cutting(job.id, 4 * N)
    road.encode(job, failed=[1], batch_rows=1)
    for _ in range(9):
        claim = ledger.claim(job.id, "worker", 60.0)
        assert ledger.finish(claim, [answer(row_id) for row_id in claim.row_ids], BatchTiming(), "cpu")
    return job


def answer(row_id):
    key = f"k{row_id // N}"
    match row_id % N:
        case 0:
            scores = (LabelScore("good", 0.75), LabelScore("bad", 0.25))
            return Completion(row_id, key, Status.OK, "good", "good", 0.75, "choice", scores=scores)
        case 1:
            return Completion(row_id, key, Status.OK, f"Because {row_id}.", finish_reason="stop", output_tokens=2)
    return Completion(row_id, key, Status.OK, embedding=struct.pack("<2f", 0.5, row_id))


def test_every_answer_bears_the_name_of_its_question(engine, ledger, job):
    assert (job.questions, job.n_questions) == (tuple(QUESTIONS), N)
    with writing(engine) as connection:
        found = connection.exec_driver_sql("SELECT row_id, question FROM results ORDER BY row_id").all()
    assert found == [(row_id, list(QUESTIONS)[row_id % N]) for row_id in range(10)]
    assert check_integrity(engine, job.id) == []
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE results SET question = 'gist' WHERE row_id = 3")
    assert check_integrity(engine, job.id) == ["1 rows are recorded under another question than their own: 3."]


def test_an_export_has_one_line_for_each_row_of_the_input(engine, job, tmp_path):
    assert export(engine, job, "parquet", tmp_path / "out.parquet") == 4
    table = pq.read_table(tmp_path / "out.parquet")
    usual = ["error_type", "error", "prompt_tokens", "reused_tokens", "output_tokens"]
    # A column of the input that has a question's name keeps it.
    assert table.column_names == [
        *("row_id", "text", "mood", "result_mood", "mood_status", "mood_score", "mood_finish_reason"),
        *(f"mood_{name}" for name in (*usual, "scores")),
        *("gist", "gist_status", "gist_finish_reason", *(f"gist_{name}" for name in usual)),
        *("place", "place_status", *(f"place_{name}" for name in usual)),
    ]
    assert table.schema.field("place").type == pa.list_(pa.float32(), 2)
    first, _, _, last = table.to_pylist()
    assert (first["row_id"], first["text"], first["result_mood"], first["mood_score"]) == (0, "0a", "good", 0.75)
    assert (first["gist"], first["gist_status"], first["gist_error"]) == (None, "error", "It is bad.")
    assert (first["place"], first["place_status"]) == ([0.5, 2.0], "ok")
    assert (last["row_id"], last["text"], last["result_mood"], last["gist_status"]) == (3, "1b", "good", None)
    assert table.to_pylist() == preview(engine, job, Wanted(limit=100))


def test_where_asks_of_every_questions_columns(engine, job):
    def row_ids(where, **chosen):
        return [row["row_id"] for row in preview(engine, job, Wanted(where=where, columns=("row_id",), **chosen))]

    assert row_ids("mood = 'good' and input.mood = 'y'") == [1, 3]
    assert row_ids("mood_score > 0.5 and gist is null", with_input=False) == [0, 3]
    assert row_ids("mood_score > 0.5 and gist is not null", with_input=False, limit=1) == [1]


def test_text_formats_have_the_same_lines(engine, job, tmp_path):
    export(engine, job, "csv", tmp_path / "out.csv", limit=2)
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [(row["row_id"], row["result_mood"], row["gist"]) for row in rows] == [
        ("0", "good", ""), ("1", "good", "Because 4."),
    ]  # fmt: skip
    export(engine, job, "jsonl", tmp_path / "out.jsonl", status=Status.ERROR)
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["mood_scores"][1] == {"label": "bad", "probability": 0.25}


def test_rows_are_found_by_how_one_of_their_answers_ended(engine, ledger, job):
    def found(rows: range, status: Status | None = None, limit: int | None = None) -> list[int]:
        answers = read_columns(engine, job, ["row_id", "key"], limit, rows=rows, status=status)
        assert all(row.row_id in rows for row in answers)
        return [row.row_id for row in answers]

    every = range(4 * N)
    assert found(every) == list(range(10))  # two answers to the last row are not there yet
    assert found(every, Status.ERROR) == [0, 1, 2]
    assert found(range(N, 4 * N), Status.OK, limit=2) == list(range(N, 3 * N))
    assert found(range(N, 4 * N), Status.ERROR) == []
    rows, of_questions = by_question(["row_id", "key"], read_columns(engine, job, ["row_id", "key"], None), N)
    assert (rows, of_questions[0]["row_id"], len(of_questions)) == ([0, 1, 2, 3], [0, 1, 2, 3], N)
    assert found(every, limit=1) == [0, 1, 2]
    counts = [count_rows(engine, job, status) for status in (None, Status.ERROR, Status.TRUNCATED)]
    assert counts == [4, 1, 0]


def test_an_error_is_retried_without_the_rows_other_answers(engine, ledger, job):
    assert ledger.retry_errors(job.id, 128) == 1
    while claim := ledger.claim(job.id, "worker", 60.0):
        assert ledger.finish(claim, [answer(row_id) for row_id in claim.row_ids], BatchTiming(), "cpu")
    assert ledger.complete(job.id)
    told = progress(engine, job.id)
    assert (told.total, told.ok, told.error) == (4 * N, 4 * N, 0)
    assert [found.row_id for found in read_results(engine, job.id, range(N))] == [0, 1, 2]
    assert check_integrity(engine, job.id) == []


def test_what_is_cancelled_has_its_questions_name_too(engine, ledger, road, job):
    assert ledger.cancel(job.id, road.keys) == 2
    assert [answer.status for answer in read_results(engine, job.id, range(9, 12))] == [
        Status.OK, Status.CANCELLED, Status.CANCELLED
    ]  # fmt: skip
    assert check_integrity(engine, job.id) == []
