"""How runs of a schedule end that something went wrong with, and what a person is told of it."""

import json
import shutil

from jobs.session import Session
from pipeline.errors import InputError
from pipeline.store.queries import list_jobs
from tests.jobs.schedules import make_due, tell
from workers.submissions import make_ticker


def test_a_night_that_cannot_write_its_file_stays_failed_tells_so_once_and_is_done_when_the_file_is(
    desk, run, add, at_shard, tmp_path
):
    place, hook = tmp_path / "out", tmp_path / "told"
    place.mkdir()
    add("night", "--notify-command", f"cat >> {hook}", job={"output": "out/night.csv"})
    at_shard(0, lambda job_id: shutil.rmtree(place))
    assert run("schedule", "run-now", "night").exit_code == 1
    assert [json.loads(line)["event"] for line in hook.read_text().splitlines()] == ["failed"]
    at_shard(9, lambda job_id: None)
    place.mkdir()
    assert run("schedule", "tick").exit_code == 0
    (failed,) = tell(run)["runs"]
    assert (failed["state"], "cannot be written" in failed["note"]) == ("failed", True)
    (job,) = list_jobs(desk.database)
    assert run("resume", job.name).exit_code == 0
    assert len((place / "night.csv").read_text().splitlines()) == 6
    assert tell(run)["runs"][0] | {"scheduled_for": None} == failed | {
        "scheduled_for": None,
        "state": "done",
        "note": None,
    }
    run("schedule", "tick")
    assert [json.loads(line)["event"] for line in hook.read_text().splitlines()] == ["failed", "done"]


def test_where_the_output_has_no_place_a_night_is_not_spent_on_it(desk, run, add, tmp_path):
    (tmp_path / "out").mkdir()
    add(job={"output": "out/night.csv"})
    (tmp_path / "out").rmdir()
    result = run("schedule", "run-now", "night")
    assert (result.exit_code, "there is no directory" in result.stderr) == (2, True)
    assert list_jobs(desk.database) == []


def stop_while_loading(monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.session.Session.load", stop)


def test_a_run_that_is_stopped_while_its_model_loads_says_what_goes_on_with_it_and_run_now_does(
    desk, run, add, monkeypatch
):
    add()
    with monkeypatch.context() as patched:
        stop_while_loading(patched)
        stopped = run("schedule", "run-now", "night")
    assert stopped.exit_code == 130
    assert "`pipeline schedule run-now night`, or the next tick, goes on with it." in stopped.stderr
    result = run("schedule", "run-now", "night")
    assert (result.exit_code, "goes on with the run before it, night-" in result.stderr) == (0, True)
    assert [told["state"] for told in tell(run)["runs"]] == ["done"]


def test_so_it_does_where_ctrl_c_comes_once_more_while_that_is_recorded(run, add, monkeypatch):
    add()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        stop_while_loading(patched)
        patched.setattr("jobs.scheduled_run._settle", stop)
        stopped = run("schedule", "run-now", "night")
    assert (stopped.exit_code, "goes on with it" in stopped.stderr) == (130, True)
    assert tell(run)["runs"][0]["state"] == "due"


def test_while_a_run_loads_those_who_ask_for_jobs_are_told_of_it(run, add, monkeypatch):
    add()
    load, told = Session.load, []

    def load_meanwhile(*arguments: object) -> object:
        told.extend(run(*command.split()).stderr for command in ("jobs", "status", "results last"))
        return load(*arguments)

    monkeypatch.setattr(Session, "load", load_meanwhile)
    assert run("schedule", "run-now", "night").exit_code == 0
    assert [each.partition("A run of ")[2][:45] for each in told] == [
        "a schedule is loading its model, and is to be"
    ] * 3


def test_a_failed_run_whose_job_is_resumed_is_not_done_before_its_file_is_written(
    desk, run, add, at_shard, tmp_path, monkeypatch
):
    place = tmp_path / "out"
    place.mkdir()
    add(job={"output": "out/night.csv"})

    def fail(job_id: str) -> None:
        raise InputError("The rows are gone.")

    monkeypatch.setattr("jobs.new_job._undo", lambda *_: None)
    at_shard(1, fail)
    assert run("schedule", "run-now", "night", PIPELINE_SHARD_ROWS="2").exit_code == 1
    at_shard(9, fail)
    (job,) = list_jobs(desk.database)
    place.rmdir()
    assert run("resume", job.name).exit_code == 1
    assert tell(run)["runs"][0]["state"] == "failed"
    place.mkdir()
    assert run("resume", job.name).exit_code == 0
    assert tell(run)["runs"][0]["state"] == "done"


def test_a_run_that_another_process_begins_is_no_job_that_could_be_cancelled(desk, run, add):
    add()
    make_due(desk)
    assert len(make_ticker(desk.database).tick(600.0)) == 1
    result = run("schedule", "run-now", "night")
    assert (result.exit_code, "cancel" in result.stderr) == (4, False)
    assert "where its process was killed, try again in a minute" in result.stderr


def test_what_removing_a_schedule_ends_is_told(desk, run, add, monkeypatch):
    add()
    with monkeypatch.context() as patched:
        stop_while_loading(patched)
        run("schedule", "run-now", "night")
    assert "has none yet, and comes to nothing" in run("schedule", "remove", "night").stderr


def test_so_is_it_where_the_run_was_under_way(run, add, monkeypatch):
    add()
    load = Session.load

    def load_meanwhile(*arguments: object) -> object:
        run("schedule", "remove", "night")
        return load(*arguments)

    monkeypatch.setattr(Session, "load", load_meanwhile)
    result = run("schedule", "run-now", "night")
    assert (result.exit_code, "its schedule was removed" in result.stderr) == (4, True)


def test_runs_of_one_day_have_a_file_each(run, add, tmp_path):
    add(job={"output": "out-{date}.csv"})
    for _ in range(2):
        assert run("schedule", "run-now", "night").exit_code == 0
    day = tell(run)["runs"][0]["scheduled_for"][:10]
    assert sorted(path.name for path in tmp_path.glob("out-*")) == [f"out-{day}-2.csv", f"out-{day}.csv"]


def test_a_night_without_rows_has_nothing_to_do_and_has_not_failed(desk, run, add, rows, tmp_path):
    add("night", "--notify-command", f"cat > {tmp_path}/told")
    rows.write_text("id,text\n")
    result = run("schedule", "run-now", "night")
    assert result.exit_code == 0
    (told,) = tell(run)["runs"]
    why = "The input has no rows, so there is nothing to answer."
    assert (told["state"], told["note"], told["job"]) == ("skipped", why, None)
    assert why in result.stderr
    assert json.loads((tmp_path / "told").read_text())["event"] == "skipped"
    assert list_jobs(desk.database) == []
