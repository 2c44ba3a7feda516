import json
import re
from pathlib import Path

from sqlalchemy import inspect, text

from pipeline.store.transactions import reading
from pipeline.store.views import NAMES, columns, views

DOCS = (Path(__file__).parents[3] / "docs/sql.md").read_text()


def rows(engine, statement):
    with reading(engine) as connection:
        return [dict(row._mapping) for row in connection.execute(text(statement))]


def test_the_columns_that_the_docs_list_are_those_of_the_views(engine):
    parts = {part.split("\n")[0]: part for part in DOCS.split("\n## ")[1:]}
    listed = {
        name: [
            column
            for cell in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
            for column in re.findall(r"`(\w+)`", cell)
        ]
        for name, part in parts.items()
    }
    with reading(engine) as connection:
        assert set(inspect(connection).get_view_names()) == set(NAMES)
        found = {name: [column["name"] for column in inspect(connection).get_columns(name)] for name in NAMES}
    assert columns() == found
    assert {name: sorted(its) for name, its in listed.items()} == {name: sorted(its) for name, its in found.items()}
    assert list(views(engine.dialect.name)) == list(listed)


def test_what_the_views_tell_of_a_job(engine, road):
    job = road.encoded_job(failed=[3], name="night")
    road.answer(job, batches=2, errors=[1])
    [told] = rows(engine, "SELECT * FROM v_jobs")
    counts = ("rows", "ok", "truncated", "errors", "cancelled", "waiting", "reused_tokens", "state", "job")
    assert [told[name] for name in counts] == [6, 2, 0, 2, 0, 2, 8, "running", "night"]
    assert str(told["submitted_at"]).startswith("2026-11-29")
    assert [told["finished_at"], told["submitted_epoch"]] == [None, 1_795_950_000.0]
    found = rows(engine, "SELECT job, key, row, status, output FROM v_results ORDER BY row")
    assert [row["row"] for row in found] == [0, 1, 2, 3]
    assert found[0] == {"job": "night", "key": "k0", "row": 0, "status": "ok", "output": "answer 0"}
    failed = rows(engine, "SELECT job, row, error FROM v_failed ORDER BY row")
    assert failed == [{"job": "night", "row": row, "error": "It is bad."} for row in (1, 3)]
    timings = rows(engine, "SELECT batch, state, rows, errors, decode_s FROM v_timings ORDER BY batch")
    assert timings[0] == {"batch": 0, "state": "done", "rows": 2, "errors": 1, "decode_s": 0.4}
    assert [row["state"] for row in timings] == ["done", "done", "pending"]


def test_a_cancelled_job_has_nothing_waiting(engine, road, ledger):
    job = road.encoded_job(name="night")
    ledger.cancel(job.id, road.keys)
    [told] = rows(engine, "SELECT state, cancelled, waiting FROM v_jobs")
    assert told == {"state": "cancelled", "cancelled": 6, "waiting": 0}


def test_a_job_whose_prompt_has_a_nul_hides_no_other(engine, ledger):
    for name, prompt in (("nul", "a\0b"), ("escaped", r"a\u0000b"), ("plain", "ab")):
        ledger.create_job(name, json.dumps({"prompt": prompt, "model": "m"}), "", "", "")
    assert rows(engine, "SELECT job, model FROM v_jobs ORDER BY job") == [
        {"job": name, "model": "m"} for name in ("escaped", "nul", "plain")
    ]
