"""What is chosen is chosen alike whatever language a database is in."""

import pytest

from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.result_condition import result_condition
from pipeline.store.result_rows import count_rows, read_columns
from tests.postgres_server import new_database

ANSWERS = [
    Completion(0, "\u20035", Status.OK, "\u0663", "a"),
    Completion(1, "5\u00a0", Status.OK, "1_0", "B"),
    Completion(2, "\u00e9", Status.OK, "\u00857", "b"),
    Completion(3, "\t5.\n", Status.OK, "1" * 60_000 + "x", "A"),
]
EXPECTED = {
    "key >= 5": [3],
    "output = 3 or output = 7 or output = 10": [],
    "label < 'a'": [1, 3],
    "label >= 'b'": [2],
    "label = 'A' or label like '%B'": [1, 3],
    "key < 'z'": [1, 3],
}


@pytest.fixture(params=["sqlite", "icu", "C.UTF-8"])
def database_url(request, sqlite_url, postgres_server):
    if request.param == "sqlite":
        yield sqlite_url
        return
    language = (
        "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'" if request.param == "icu" else "LOCALE 'C.UTF-8'"
    )
    with new_database(postgres_server, f"TEMPLATE template0 ENCODING 'UTF8' {language}") as url:
        yield url


@pytest.fixture
def job(ledger, road):
    job = road.job(n_rows=4, shard_rows=4)
    road.encode(job, batch_rows=4)
    assert ledger.finish(ledger.claim(job.id, "a", 60), ANSWERS, BatchTiming(), "cpu")
    return job


def test_numbers_and_the_order_of_texts_are_the_same_in_all(engine, job):
    def row_ids(text: str) -> list[int]:
        return [
            row.row_id for row in read_columns(engine, job, ["row_id"], None, condition=result_condition(text, engine))
        ]

    assert {text: row_ids(text) for text in EXPECTED} == EXPECTED


def test_many_wildcards_take_no_longer_than_few(engine, job):
    assert count_rows(engine, job, None, result_condition("output like '%1%1%1%zz'", engine)) == 0
