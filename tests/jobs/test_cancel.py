import re

from pipeline.store.integrity import check_integrity
from pipeline.store.queries import find_job, stream_results
from pipeline.store.records import JobState


def results(desk, job):
    return [(result.key, str(result.status)) for result in stream_results(desk.database, job.id)]


def test_what_is_answered_stays_and_the_rest_is_cancelled(desk, run):
    job = desk.running("night", batches=1)
    result = run("cancel", "night")
    assert result.exit_code == 0
    assert result.stdout == (
        "night is cancelled: 3 rows have their results and keep them, 3 rows are cancelled.\n"
        "`pipeline resume night` goes on where it stopped.\n"
    )
    assert results(desk, job) == [
        ("r0", "ok"),
        ("r1", "truncated"),
        ("r2", "cancelled"),
        ("r3", "cancelled"),
        ("r4", "cancelled"),
        ("r5", "error"),
    ]
    assert find_job(desk.database, "night").state is JobState.CANCELLED
    assert check_integrity(desk.database, job.id) == []


def test_a_second_time_it_says_the_same(desk, run):
    desk.running("night", batches=1)
    assert run("cancel", "last").stdout == run("cancel", "last").stdout


def test_without_a_key_column_the_rows_go_by_their_number(desk, run):
    job = desk.running("night", key=None)
    assert "1 row has its result and keeps it, 5 rows are cancelled." in run("cancel", "night").stdout
    assert results(desk, job)[:2] == [("0", "cancelled"), ("1", "cancelled")]


def test_while_it_is_cut(desk, run):
    desk.cutting("my night")
    assert run("cancel", "my night").stdout == (
        "my night is cancelled: 0 rows have their results and keep them, 4 rows are cancelled.\n"
        "Its input had not been read to the end.\n"
        "`pipeline resume 'my night'` goes on where it stopped.\n"
    )


def test_a_done_job_is_refused(desk, run):
    desk.done("night")
    result = run("cancel", "night")
    assert result.exit_code == 4
    assert result.stderr.endswith("is done; there is nothing to cancel.\n")
    assert find_job(desk.database, "night").state is JobState.DONE


def test_an_unknown_job(run):
    result = run("cancel", "night")
    assert result.exit_code == 3
    assert re.fullmatch(
        r"Error: There are no jobs yet in .*pipeline\.db\. `pipeline submit --help` tells how to begin\.\n",
        result.stderr,
    )


def test_no_job_is_cancelled_by_default(desk, run):
    desk.running("night")
    result = run("cancel")
    assert result.exit_code == 2
    assert "Missing argument 'JOB'." in result.stderr
