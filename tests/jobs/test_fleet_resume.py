"""`resume`, `retry` and `--wait` where there is a fleet; the fleet's part is played with the real ledger."""

import signal
import subprocess
import threading
import time

import pytest

from pipeline.buckets import PlannedBatch
from pipeline.rows import BatchTiming, Completion, Status
from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, list_jobs, list_shards, progress, stream_results
from pipeline.store.records import JobState, Role, WorkerState
from tests.jobs.conftest import BROKER, COMMAND


def interrupt(job_id):
    raise KeyboardInterrupt


def test_a_cut_that_was_stopped_is_gone_on_with(desk, submit, run, at_shard):
    at_shard(1, interrupt)
    stopped = submit(**BROKER)
    assert stopped.exit_code == 130
    assert "go on with: pipeline resume night" in stopped.stderr
    job = find_job(desk.database, "night")
    assert (job.state, len(list_shards(desk.database, job.id))) == (JobState.CUTTING, 2)
    resumed = run("resume", "night", **BROKER)
    assert resumed.exit_code == 0, resumed.output
    assert len(list_shards(desk.database, job.id)) == 3
    assert find_job(desk.database, "night").state is JobState.RUNNING


def test_while_another_machine_cuts_nobody_else_does(desk, submit, run, at_shard):
    at_shard(1, interrupt)
    submit(**BROKER)
    job = find_job(desk.database, "night")
    desk.enter(Role.PRODUCER, WorkerState.BUSY, job_id=job.id)
    run("pause", "night")
    assert run("resume", "night", **BROKER).exit_code == 0
    again = find_job(desk.database, "night")
    assert (again.state, again.paused_at) == (JobState.CUTTING, None)


def test_a_place_for_shards_that_cannot_be_written_is_told_and_once_mended_gone_on_with(desk, submit, run, tmp_path):
    place = tmp_path / "shared"
    place.write_text("no directory")
    result = submit(**BROKER, PIPELINE_SHARDS=str(place))
    assert result.exit_code == 1
    assert str(place) in result.stderr
    place.unlink()
    resumed = run("resume", "night", **BROKER, PIPELINE_SHARDS=str(place))
    assert resumed.exit_code == 0, resumed.output
    job = find_job(desk.database, "night")
    assert (job.state, job.tokenizer) == (JobState.RUNNING, f"{place}/{job.id}/shards/tokenizer")


def test_an_input_that_changed_is_not_cut_on(desk, submit, run, rows, at_shard):
    at_shard(1, interrupt)
    submit(**BROKER)
    rows.write_text(rows.read_text() + "r9,more\n")
    refused = run("resume", "night", **BROKER)
    assert refused.exit_code == 4
    assert (
        "The input of night has changed since its first rows were read: it has 71 bytes, and had 63." in refused.stderr
    )


def test_an_input_that_was_written_anew_is_cut_on_where_the_rows_that_were_read_are_as_before(
    desk, submit, run, rows, at_shard
):
    at_shard(1, interrupt)
    submit(**BROKER)
    text = rows.read_text()
    rows.write_text(text.replace("Hello 1", "Hullo 1"))
    refused = run("resume", "night", **BROKER)
    assert refused.exit_code == 4
    assert "row 2 is another one now. Put the old files back" in refused.stderr
    rows.write_text(text)
    resumed = run("resume", "night", **BROKER)
    assert resumed.exit_code == 0, resumed.output
    assert "The files of night were moved or written anew since its first rows were read" in resumed.stderr
    assert find_job(desk.database, "night").state is JobState.RUNNING


def test_a_paused_job_goes_on(desk, submit, run):
    submit(**BROKER)
    run("pause", "night")
    assert run("resume", "night", **BROKER).exit_code == 0
    assert find_job(desk.database, "night").paused_at is None


def test_a_cancelled_job_goes_on(desk, submit, run):
    submit(**BROKER)
    run("cancel", "night")
    assert run("resume", "night", **BROKER).exit_code == 0
    job = find_job(desk.database, "night")
    assert job.state is JobState.RUNNING
    assert progress(desk.database, job.id).cancelled == 0


def test_a_job_of_one_process_is_taken_over_by_the_fleet(desk, submit, run, at_shard):
    at_shard(1, interrupt)
    assert submit(PIPELINE_SHARD_ROWS="2").exit_code == 130
    assert not find_job(desk.database, "night").fleet
    assert run("resume", "night", **BROKER).exit_code == 0
    job = find_job(desk.database, "night")
    assert (job.fleet, job.context, job.state) == (True, 512, JobState.RUNNING)
    assert job.tokenizer is not None


def test_a_job_whose_shards_the_fleet_does_not_see_stays_here(desk, submit, run, tmp_path, at_shard):
    at_shard(1, interrupt)
    assert submit(PIPELINE_SHARD_ROWS="2").exit_code == 130
    done = run("resume", "night", **BROKER, PIPELINE_SHARDS=str(tmp_path / "shared"))
    assert done.exit_code == 0
    job = find_job(desk.database, "night")
    assert (job.fleet, job.state) == (False, JobState.DONE)


@pytest.mark.parametrize("stopped", ["running", "paused", "cancelled"])
def test_without_a_fleet_its_job_is_answered_here(desk, submit, run, stopped):
    submit(**BROKER)
    if stopped != "running":
        run({"paused": "pause", "cancelled": "cancel"}[stopped], "night")
    done = run("resume", "night")
    assert done.exit_code == 0, done.output
    job = find_job(desk.database, "night")
    assert (job.fleet, job.state, job.paused_at) == (False, JobState.DONE, None)
    assert len(list(stream_results(desk.database, job.id))) == 5
    assert check_integrity(desk.database, job.id) == []


def test_retry_leaves_the_errors_to_the_fleet(desk, submit, run, rows):
    rows.write_text(rows.read_text() + f"r6,{'x' * 900}\n")
    submit()
    desk.enter(Role.DISPATCHER)
    retried = run("retry", "night")
    assert retried.exit_code == 0, retried.output
    assert retried.stdout.startswith("night is with the fleet: 1 row to be answered.\n")
    job = find_job(desk.database, "night")
    assert (job.fleet, job.state) == (True, JobState.RUNNING)


def answer(desk, job):
    """All that is cut, as a tokenizer and a gpu worker would."""
    for shard in list_shards(desk.database, job.id):
        planned = [PlannedBatch(tuple(range(shard.row_from, shard.row_to)), 9)]
        assert len(desk.real.record_encoding(job.id, shard.shard_no, planned, [], 0.1)) == 1
    while claim := desk.real.claim(job.id, "far/gpu.1", 60.0):
        assert desk.real.begin(claim)
        completions = [
            Completion(row_id, str(row_id), Status.OK, output="Yes.", finish_reason="stop") for row_id in claim.row_ids
        ]
        assert desk.real.finish(claim, completions, BatchTiming(output_tokens=2), "cpu")
    assert desk.real.complete(job.id)


def while_waiting(desk, act):
    """Calls `act` with the job, beside the command, once it is cut."""

    def wait():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            jobs = list_jobs(desk.database)
            if jobs and jobs[0].state is JobState.RUNNING:
                act(jobs[0])
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_wait_ends_with_the_job_and_reports_it(desk, submit, tmp_path):
    thread = while_waiting(desk, lambda job: answer(desk, job))
    result = submit("--wait", "--output", str(tmp_path / "answers.csv"), **BROKER)
    thread.join()
    assert result.exit_code == 0, result.output
    assert "night is done: 5 rows finished." in result.stdout
    assert (tmp_path / "answers.csv").read_text().count("Yes.") == 5


def test_a_wait_ends_where_the_job_pauses_itself(desk, submit):
    thread = while_waiting(desk, lambda job: desk.real.pause(job.id, "The model is not there."))
    result = submit("--wait", **BROKER)
    thread.join()
    assert result.exit_code == 1
    assert "The job is paused: The model is not there.\n" in result.stderr
    assert "0 of 5 rows recorded; go on with: pipeline resume night" in result.stderr


def test_a_wait_ends_where_the_job_is_cancelled(desk, submit, run):
    thread = while_waiting(
        desk,
        lambda job: desk.real.cancel(job.id, lambda shard: [(row, "k") for row in range(shard.row_from, shard.row_to)]),
    )
    result = submit("--wait", **BROKER)
    thread.join()
    assert result.exit_code == 130
    assert "The job is cancelled" in result.stderr


def test_ctrl_c_ends_the_wait_and_not_the_job(desk, submit, environment):
    submit(**BROKER)
    process = subprocess.Popen(
        [*COMMAND, "resume", "night", "--wait"],
        env=environment | BROKER,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = process.stderr.readline()
    assert told.startswith("No dispatcher lives on this database")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 130
    assert rest.endswith("The job goes on; look at it with: pipeline status night\n")
    assert find_job(desk.database, "night").state is JobState.RUNNING
