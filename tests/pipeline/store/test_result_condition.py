import pytest
from sqlalchemy import create_engine

from pipeline.errors import SpecError
from pipeline.ingest.expression import columns_of
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.columns import nameable_columns
from pipeline.store.export import Wanted, preview
from pipeline.store.result_condition import result_condition
from pipeline.store.result_rows import read_columns

ANSWERS = [
    Completion(0, "1", Status.OK, "It's fine\nby me", "good", 0.5, prompt_tokens=7),
    Completion(1, " 05.0 ", Status.OK, "it's 100%", "bad", 0.95, prompt_tokens=9),
    Completion(2, "k2", Status.ERROR, error_type="bad", error="y"),
    Completion(3, "1234567890123456789", Status.TRUNCATED, "", "good", 0.9),
]


EXPECTED = {
    "label = 'good' and score > 0.6": [3],
    "label != 'good'": [1],
    "not label = 'good'": [1],
    "label is null": [2],
    "label is not null and not (row_id = 0 or row_id == 1)": [3],
    "status = 'error' or output like 'it%'": [1, 2],
    "output like '%t''s%me'": [0],
    "output like '%100_'": [1],
    "output not like '%.%'": [0, 1, 3],
    r"output like '%\%'": [1],
    "output like '%[_]%' or output like '%*%' or output like '%?'": [],
    r"output like '\%%' or output like '%\\%'": [],
    "output = ''": [3],
    "error = 'x' or error like '_'": [2],
    "label in ('bad', 'worse')": [1],
    "prompt_tokens not in (7, 9)": [2, 3],
    "key >= 1": [0, 1, 3],
    "key = 5": [1],
    "key = '5'": [],
    "key = 1234567890123456789": [3],
    "key > 1234567890123456788": [3],
    "prompt_tokens < 99999999999999999999": [0, 1, 2, 3],
    "score >= 0.9": [1, 3],
    "prompt_tokens between 7 and 8 or key not between 0 and 5": [0, 3],
    "answered_at between '2026-11-28' and '2026-11-30 08:30'": [0, 1, 2, 3],
    "answered_at < '2026-11-28T23:00:00+09:00'": [],
    "status = 'x'' or 1=1 --'": [],
}


@pytest.fixture
def job(ledger, road):
    job = road.job(n_rows=4, shard_rows=4)
    road.encode(job, batch_rows=4)
    assert ledger.finish(ledger.claim(job.id, "a", 60), ANSWERS, BatchTiming(), "cpu")
    return job


def test_which_results_fulfil_it(engine, job):
    def row_ids(text: str) -> list[int]:
        return [
            row.row_id for row in read_columns(engine, job, ["row_id"], None, condition=result_condition(text, engine))
        ]

    assert {text: row_ids(text) for text in EXPECTED} == EXPECTED


def test_the_same_fulfil_it_where_they_are_looked_at_one_by_one(engine, job):
    def row_ids(text: str) -> list[int]:
        return [
            row["row_id"] for row in preview(engine, job, Wanted(where=text, columns=("row_id",), with_input=False))
        ]

    there = set(nameable_columns(job.spec_json))
    expected = {text: rows for text, rows in EXPECTED.items() if set(columns_of(text)) <= there}
    assert len(expected) > 12
    assert {text: row_ids(text) for text in expected} == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("labl = 'good'", 'The results have no column "labl". Did you mean "label"? Their columns are: row_id, key,'),
        ("job_id = 'x'", 'The results have no column "job_id".'),
        ("score = 'high'", "--where compares the column \"score\", which is a number, with 'high', and that has no"),
        ("label = true", '--where compares the column "label", which is text, with True, and that has no meaning.'),
        ("scores = 'x'", "--where compares the column \"scores\", which is a list, with 'x'"),
        ("score like '0%'", '--where compares the column "score", which is a number'),
        ("label", "--where cannot be read at its end: there should be one of = != < <= > >=, is, in, like or between."),
        (
            "answered_at > 5",
            "--where compares answered_at, which is a time, with 5, and that has no meaning. Write '20",
        ),
        ("labl >", "--where cannot be read at its end: there should be a number"),
        ("label = 'a'; DROP TABLE results", "--where cannot be read at character 12 (;)"),
    ],
)
def test_what_makes_no_sense_is_told(text, told):
    with pytest.raises(SpecError) as caught:
        result_condition(text, create_engine("sqlite://"))
    assert str(caught.value).startswith(told)
