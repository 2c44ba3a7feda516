import struct

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.dialects import sqlite

from pipeline.rows import BatchTiming, Completion, LabelScore, LikelyToken, Sample, Status, TokenLogprob
from pipeline.store.column_types import AnyText, RowIds
from pipeline.store.queries import find_job, stream_results
from pipeline.store.schema import jobs
from pipeline.store.transactions import reading

DIALECT = sqlite.dialect()
ODD = "a\0b \ud800\udc00 \udcff ␛ ␛0041 🎉"


def stored(row_ids):
    return RowIds().process_bind_param(row_ids, DIALECT)


def test_row_ids_are_the_lowest_and_how_far_the_others_are_from_it():
    assert stored((260, 258, 513)) == bytes.fromhex("02010000000000000202000000ff00")
    assert [len(stored(range(10**9, 10**9 + n))) for n in (1, 128, 65_536, 65_537)] == [11, 265, 131_081, 262_157]


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**17), max_size=200))
def test_row_ids_come_back(row_ids):
    assert RowIds().process_result_value(stored(tuple(row_ids)), DIALECT) == tuple(row_ids)
    assert len(stored(row_ids)) % 2 == 1


def test_row_ids_that_an_older_version_kept_are_read():
    kept = bytes.fromhex("01000000000000000000000000010000")
    assert RowIds().process_result_value(kept, DIALECT) == (1, 2**40)


@given(st.text(st.one_of(st.characters(codec=None), st.sampled_from("␛0a\0\ud800"))))
def test_any_text_comes_back_from_what_every_database_takes(value):
    kept = AnyText().process_bind_param(value, DIALECT)
    assert "\0" not in kept
    assert kept.encode().decode() == kept
    assert AnyText().process_result_value(kept, DIALECT) == value


def test_usual_text_is_kept_as_it_is():
    for value in (None, "", "plain", "日本 🎉\n\t\x01 €"):
        assert AnyText().process_bind_param(value, DIALECT) == value


def test_odd_text_loses_no_batch(engine, road, ledger):
    job = road.encoded_job(n_rows=2)
    logprobs = (TokenLogprob(1, ODD, -0.5, (LikelyToken(2, ODD, -0.1),)),)
    answers = [
        Completion(
            0, ODD, Status.OK, ODD, samples=(Sample(ODD, "stop", 1, logprobs), Sample("", "stop", 1)), logprobs=logprobs
        ),
        Completion(1, "k1", Status.ERROR, error_type="bad", error=ODD),
    ]
    assert ledger.finish(ledger.claim(job.id, ODD, 60), answers, BatchTiming(), ODD)
    assert list(stream_results(engine, job.id)) == answers
    with reading(engine) as connection:
        kept = connection.scalar(text("SELECT output FROM results WHERE row_id = 0"))
    assert kept == "a␛0000b ␛d800␛dc00 ␛dcff ␛241b ␛241b0041 🎉"


def test_what_other_tasks_answer_comes_back_as_it_was(engine, road, ledger):
    job = road.encoded_job(n_rows=1)
    answer = Completion(
        0,
        "k0",
        Status.OK,
        labels=("b", "a"),
        scores=(LabelScore("a", 0.75), LabelScore("b", 0.25)),
        logprob=-0.1,
        perplexity=1.5,
        embedding=struct.pack("<4f", 0.1, -1e-30, 3e38, 1 / 3),
        parsed='{"a":[1]}',
        cut_tokens=7,
        copied_from="another",
    )
    assert ledger.finish(ledger.claim(job.id, "me", 60), [answer], BatchTiming(), "cpu")
    assert list(stream_results(engine, job.id)) == [answer]


def test_odd_text_is_found_again(engine, road, ledger):
    job = road.job(name="odd\0name")
    ledger.fail_note(job.id, ODD)
    assert find_job(engine, "odd\0name").error == ODD
    with reading(engine) as connection:
        assert connection.scalar(select(jobs.c.id).where(jobs.c.name.startswith("odd\0"))) == job.id
