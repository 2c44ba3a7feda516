"""`status --watch`, and what `--wait` looks at meanwhile; a job moves while the watcher sleeps."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from jobs.standing import State, standing
from jobs.view import Failures, Seen, view
from jobs.watch import watch
from pipeline.errors import TryAgain
from pipeline.spec import JobSpec
from pipeline.store.records import Progress, Role, WorkerState
from workers.process import Members


@pytest.fixture
def moving(desk, monkeypatch):
    """A job of a fleet, of which a batch is answered at each look; the second look finds the database away."""
    job = desk.running("night", batches=1, fleet=True)
    looks = []

    def answer(seconds):
        looks.append(seconds)
        if len(looks) in (1, 3):
            desk._answer(job, JobSpec.model_validate_json(job.spec_json))
            desk.ledger.complete(job.id)

    def seen(database, settings, ref):
        if len(looks) == 2:
            raise TryAgain("The database is away.")
        return standing(database, settings, ref)

    monkeypatch.setattr("jobs.watch.time.sleep", answer)
    monkeypatch.setattr("jobs.watch.standing", seen)
    return job


def test_in_a_pipe_it_ends_with_the_job_in_plain_lines(desk, moving, run):
    lines = run("status", "night", "--watch").stdout.splitlines()
    assert lines[0].startswith("No dispatcher lives on this database")
    assert lines[1] == "The database is away."
    end = next(number for number, line in enumerate(lines) if line.startswith("6/6 rows, "))
    assert lines[end + 1] == "night is done: 6 rows finished."


def test_a_script_gets_one_object_when_it_has_ended(desk, moving, run):
    result = run("status", "night", "--watch", "--json")
    assert json.loads(result.stdout)["state"] == "done"
    assert "6/6 rows, " in result.stderr


def test_on_a_terminal_it_shows_how_it_goes_on(desk, moving):
    console = Console(file=io.StringIO(), force_terminal=True, width=120, no_color=True)
    found = watch(desk.database, desk.settings, moving.id, console)
    shown = console.file.getvalue()
    assert found.state is State.DONE
    assert all(f"{rows}/6 rows" in shown for rows in (3, 5, 6))
    assert "1 error: 1 too_long" in shown


def test_a_job_alone_that_nobody_works_on_is_not_waited_for(desk, run):
    job = desk.running("alone", batches=1)
    assert "alone was interrupted: 3 of 6 rows finished" in run("status", "alone", "--watch").stdout
    with Members(desk.home).joined(job.id):
        assert standing(desk.database, desk.settings, job.id).state is State.RUNNING, "such a one is watched"


def test_it_shows_who_works_on_what_and_what_holds_it_up(desk):
    job = desk.running("night", batches=1, fleet=True)
    desk.enter(Role.GPU, WorkerState.BUSY, device="cuda:0", job_id=job.id, batch_no=1, rows=12)
    found = standing(desk.database, desk.settings, job.id)
    console = Console(file=io.StringIO(), width=200)
    console.print(view(Seen("night", found.figures, found.in_fleet), "2.0 rows/s, 9.0 s left", {"too_long": 1}))
    lines = console.file.getvalue().splitlines()
    assert (lines[0].split()[1], lines[0].split()[-2:]) == ("night", ["3/6", "rows"])
    assert [line.rstrip() for line in lines[1:3]] == ["2.0 rows/s, 9.0 s left", "1 error: 1 too_long"]
    assert "night, batch 1" in console.file.getvalue()
    assert "No dispatcher lives" in lines[-2]


def test_only_the_most_frequent_errors_are_named():
    console = Console(file=io.StringIO(), width=200)
    kinds = {f"kind{number}": 9 - number for number in range(7)}
    console.print(view(Seen("night", replace(Progress(total=None), error=42)), "", kinds))
    assert "42 errors: 9 kind0, 8 kind1, 7 kind2, 6 kind3, 5 kind4, …" in console.file.getvalue()
    assert "42/? rows" in console.file.getvalue()


def test_errors_are_counted_again_only_where_there_may_be_new_ones_and_not_too_often(desk, monkeypatch):
    counted = []

    def count(database, job_id):
        counted.append(job_id)
        clock.now += 1.0
        return {"bad": len(counted)}

    clock = desk.clock
    monkeypatch.setattr("jobs.view.error_counts", count)
    failures = Failures(desk.database, "job", clock)
    assert failures.by_kind(0) == {}
    assert failures.by_kind(1) == {"bad": 1}
    assert failures.by_kind(1) == failures.by_kind(5) == {"bad": 1}, "a count of one second, every twenty"
    clock.now += 21.0
    assert failures.by_kind(5) == {"bad": 2}
    assert len(counted) == 2
