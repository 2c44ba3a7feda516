"""Whose rows come first, and jobs that are paused, cancelled, resumed and retried while the fleet is at them."""

import shutil
import time
from itertools import product

import pytest

from pipeline.store.records import BatchState, JobState
from tests.fleet.disturbances import GPU
from tests.fleet.marks import on_postgresql, on_sqlite
from tests.fleet.table import ROWS


@pytest.fixture
def long_table(rows, tmp_path):
    """Three times the table; its keys are the rows' numbers."""
    for copy in range(3):
        shutil.copy2(rows, tmp_path / f"{copy}.parquet")
    return tmp_path


@pytest.fixture
def patient_fleet(fleet):
    """Its dispatcher takes no message for lost, however long one lies with a worker that has others, and sends none
    again."""
    fleet.kill("dispatcher")
    fleet.start("dispatcher", *fleet.posts["dispatcher"], PIPELINE_LOST_AFTER_S="600")
    yield fleet
    fleet.kill("dispatcher")


@on_sqlite
def test_an_urgent_job_is_begun_next_and_done_first(patient_fleet, rows, long_table, name, calm):
    fleet = patient_fleet
    usual, urgent = f"{name}, usual", f"{name}, urgent"
    asked = fleet.submission(long_table, usual, "--keep-order", "--no-dedupe")
    done = fleet.run(*(word for word in asked if word not in ("--key", "id")))
    assert done.exit_code == 0, done.output
    fleet.until_recorded(usual, 8)
    with fleet.held("answering"):
        fleet.submit(rows, urgent, "--priority", "5")
        fleet.until_encoded(urgent)
        sent = {batch.batch_no for batch in fleet.seen.batches(usual) if batch.state is not BatchState.PENDING}
    fleet.until_done(usual)
    order = fleet.seen.beginnings(usual, urgent)
    last = len(order) - 1 - order[::-1].index(urgent)
    sendings = fleet.seen.sendings(usual)
    after = min(moment for batch_no, moment in sendings.items() if batch_no not in sent)
    assert max(fleet.seen.sendings(urgent).values()) < after + 0.001
    assert last < len(order) - 4, "the usual job ended before the urgent one had its turn"
    ends = [max(batch.finished_at for batch in fleet.seen.batches(one)) for one in (urgent, usual)]
    assert ends[0] < ends[1]
    fleet.require_whole(urgent, calm)
    fleet.require_whole(usual, {row: (str(row), *calm[row % ROWS][1:]) for row in range(3 * ROWS)})


@on_postgresql
def test_equal_jobs_have_equal_shares(fleet, rows, name, calm):
    names = [f"{name}, {number}" for number in range(2)]
    with fleet.held("answering"):
        for one in names:
            fleet.submit(rows, one)
            fleet.until_encoded(one)
        # As if nothing had been sent so far: the first job was alone for a while.
        fleet.kill("dispatcher")
        for command, one in product(("pause", "resume"), names):
            assert fleet.run(command, one).exit_code == 0
        fleet.redis.client().delete(GPU)
        fleet.restart("dispatcher")
    for one in names:
        fleet.until_done(one)
        fleet.require_whole(one, calm)
    order = fleet.seen.beginnings(*names)
    half = order[: len(order) // 2]
    assert min(half.count(one) for one in names) >= len(half) // 4


@on_sqlite
def test_a_paused_job_stands_still_until_it_is_resumed(fleet, job, calm):
    assert fleet.run("pause", job).exit_code == 0
    before = fleet.seen.figures(job)
    fleet.until(lambda: not fleet.seen.figures(job).batches[BatchState.LEASED])
    held = fleet.seen.figures(job)
    assert held.batches[BatchState.DONE] - before.batches[BatchState.DONE] <= 4
    assert held.batches[BatchState.PENDING] > 0
    time.sleep(1.5)
    assert fleet.seen.figures(job).recorded == held.recorded
    assert fleet.status(job)["state"] == "paused"
    assert fleet.run("resume", job).exit_code == 0
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_postgresql
def test_a_cancelled_job_keeps_what_it_has_and_can_go_on(fleet, job, calm):
    assert fleet.run("cancel", job).exit_code == 0
    found = fleet.seen.answers(job)
    answered = {row: answer for row, answer in found.items() if answer[1] != "cancelled"}
    assert 8 <= len(answered) < len(found) == ROWS
    assert answered == {row: calm[row] for row in answered}
    fleet.seen.require_closed(job)
    assert fleet.run("resume", job).exit_code == 0
    fleet.until_done(job)
    fleet.require_whole(job, calm)


@on_sqlite
def test_error_rows_are_tried_again(fleet, job, calm):
    fleet.until_done(job)
    before = len(fleet.seen.batches(job))
    done = fleet.run("retry", job)
    assert done.exit_code == 0, done.output
    assert "to be answered again: 2" in done.stderr
    assert fleet.seen.job(job).state is JobState.RUNNING
    fleet.until_done(job)
    assert len(fleet.seen.batches(job)) > before
    fleet.require_whole(job, calm)
