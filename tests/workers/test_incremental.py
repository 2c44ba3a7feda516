"""Nights of an incremental schedule: whose answers are taken over, and what is counted new beside the night before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import event

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.differences import count_differences, difference_of, last_job
from pipeline.store.lookup import read_job
from pipeline.store.purge import purge
from pipeline.store.records import JobRecord
from pipeline.store.schedule_records import Difference, RunState
from tests.workers.nights import DAY, KINDS, Nights

SPEC = '{"notify": null, "key": "id"}'


@dataclass
class Fleet:
    """Answers each night's rows, two of them to a key; of a row's content its answer and its hash are made."""

    nights: Nights

    def night(self, contents: Sequence[str], failed: Sequence[int] = ()) -> tuple[JobRecord, int, Difference | None]:
        """The job, how many of its rows were copied, and what was new."""
        nights = self.nights
        nights.now += DAY
        (claim,) = nights.tick()
        job = nights.ledger.create_job(nights.run(claim).job_name, SPEC, "", "", "", run=claim, questions=["a", "b"])
        nights.ledger.add_shard(job.id, 0, "/nowhere/0.parquet", 0, len(contents))
        nights.ledger.finish_cutting(job.id, len(contents))
        known = nights.ledger.answers_to(job.id, [content.encode() for content in contents])
        copies = [
            replace(known[content.encode()], row_id=row_id, key=f"k{row_id // 2}")
            for row_id, content in enumerate(contents)
            if content.encode() in known
        ]
        left = {*range(len(contents))} - {copy.row_id for copy in copies}
        nights.ledger.record_encoding(job.id, 0, [PlannedBatch((row,), 1) for row in left], [], 0.0, copies=copies)
        while batch := nights.ledger.claim(job.id, "worker", 60.0):
            (row,) = batch.row_ids
            status = Status.ERROR if row in failed else Status.OK
            answer = Completion(row, f"k{row // 2}", status, contents[row], prompt_hash=contents[row].encode())
            assert nights.ledger.finish(batch, [answer], BatchTiming(), "cpu")
        assert nights.ledger.complete(job.id)
        nights.runs.end(claim, RunState.DONE)
        count_differences(nights.database)
        return job, len(copies), difference_of(nights.run(claim))

    def purge(self, job: JobRecord) -> None:
        assert purge(self.nights.database, read_job(self.nights.database, job.id), "results")


@pytest.fixture
def fleet(nights: Nights) -> Fleet:
    nights.add(incremental=True, spec_json=SPEC, grace_s=DAY)
    return Fleet(nights)


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_job_that_answered_is_purged_the_copies_of_later_nights_are_copied(fleet):
    rows = ["one", "two", "three", "four"]
    first, _, new = fleet.night(rows)
    assert new == Difference(new=2, reused=0, changed=0, again=0, gone=0)
    second, copied, _ = fleet.night(rows)
    assert copied == 4
    fleet.purge(first)
    third, copied, difference = fleet.night(rows)
    assert (copied, difference) == (4, Difference(new=0, reused=2, changed=0, again=0, gone=0))
    (answer,) = fleet.nights.ledger.answers_to(third.id, [b"one"]).values()
    assert (answer.output, answer.copied_from, answer.prompt_hash) == ("one", first.id, b"one")
    fleet.purge(third)
    before = last_job(fleet.nights.database, "s")
    assert before is not None
    assert before.id == second.id
    assert fleet.night(rows[2:])[2] == Difference(new=0, reused=1, changed=0, again=0, gone=1)


@pytest.mark.parametrize("kind", KINDS)
def test_of_several_questions_a_row_is_reused_where_all_its_answers_are(fleet):
    fleet.night(["a1", "b1", "a2", "b2", "a3", "b3"], failed=[4])
    _, copied, difference = fleet.night(["a1", "b1", "a2", "other", "a3", "b3", "a1", "new"])
    assert (copied, difference) == (5, Difference(new=1, reused=1, changed=1, again=1, gone=0))


def test_answers_are_looked_up_by_their_hashes_however_many_jobs_a_schedule_has(fleet):
    """SQLite's planner has to be kept from the key of the results, of which a job's id is the first column."""
    job, _, _ = fleet.night(["one", "two"])
    asked: list[tuple[str, object]] = []
    event.listen(fleet.nights.database, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    assert len(fleet.nights.ledger.answers_to(job.id, [b"one", *(b"%d" % number for number in range(399))])) == 1
    with fleet.nights.database.connect() as connection:
        plans = [
            str(row[3])
            for statement, values in asked.copy()
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    assert {plan for plan in plans if " results " in plan} == {
        "SEARCH results USING INDEX results_hashed (prompt_hash=?)",
        "SEARCH results USING INDEX sqlite_autoindex_results_1 (job_id=? AND row_id=?)",
    }
