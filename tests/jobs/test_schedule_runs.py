"""Runs of a schedule, in the foreground and by a dispatcher, with what stands in their way."""

import json
from dataclasses import dataclass, field, replace

import pytest

from pipeline.store.database import Database
from pipeline.store.ledger import Ledger
from pipeline.store.queries import list_jobs
from pipeline.store.records import JobState
from pipeline.store.schedules import Schedules
from tests.jobs.conftest import BROKER
from tests.jobs.schedules import make_due, tell
from workers import notifier, submissions
from workers.submissions import Submissions, make_ticker


def test_without_a_fleet_a_tick_runs_what_is_due_and_one_that_fails_holds_up_no_other(desk, run, add, tmp_path):
    hook = tmp_path / "told"
    add("broken", "--notify-command", f"cat > {hook}", job={"inputs": "later.csv"})
    add("night")
    make_due(desk, "broken", 120)
    make_due(desk)
    result = run("schedule", "tick")
    assert result.exit_code == 1
    assert "later.csv does not exist" in result.stderr
    assert json.loads(hook.read_text())["error"].startswith(f"{tmp_path}/later.csv does not exist")
    assert tell(run, "broken")["runs"][0] | {"scheduled_for": None} == {
        "scheduled_for": None,
        "state": "failed",
        "job": None,
        "note": f"{tmp_path}/later.csv does not exist. Check the name, and the folder that you are in.",
        "notice_error": None,
        "difference": None,
    }
    assert [(job.name[:6], job.state) for job in list_jobs(desk.database)] == [("night-", JobState.DONE)]
    (tmp_path / "later.csv").write_text("id,text\na,b\n")
    make_due(desk, "broken")
    assert run("schedule", "tick").exit_code == 0
    assert [found["state"] for found in tell(run, "broken")["runs"]] == ["done", "failed"]
    assert run("schedule", "tick").stdout == ""


def test_ctrl_c_leaves_a_run_to_the_next_tick(desk, run, add, at_shard):
    add()

    def interrupt(job_id: str) -> None:
        raise KeyboardInterrupt

    at_shard(1, interrupt)
    assert run("schedule", "run-now", "night", PIPELINE_SHARD_ROWS="2").exit_code == 130
    assert tell(run)["runs"][0]["state"] == "due"
    at_shard(9, interrupt)
    assert run("schedule", "tick").exit_code == 0
    assert tell(run)["runs"][0]["state"] == "done"
    assert [job.state for job in list_jobs(desk.database)] == [JobState.DONE]


def test_what_a_person_cancelled_meanwhile_is_not_gone_on_with(desk, run, add, at_shard):
    add()

    def interrupt(job_id: str) -> None:
        raise KeyboardInterrupt

    at_shard(1, interrupt)
    run("schedule", "run-now", "night", PIPELINE_SHARD_ROWS="2")
    at_shard(9, interrupt)
    (job,) = list_jobs(desk.database)
    assert run("cancel", job.name).exit_code == 0
    assert run("schedule", "tick").exit_code == 0
    assert tell(run)["runs"][0]["state"] == "cancelled"
    assert [job.state for job in list_jobs(desk.database)] == [JobState.CANCELLED]


def test_while_a_run_is_not_over_none_is_begun_by_hand(desk, run, add):
    add()
    assert run("schedule", "run-now", "night", **BROKER).exit_code == 0
    result = run("schedule", "run-now", "night", **BROKER)
    assert (result.exit_code, "pipeline cancel night-" in result.stderr) == (4, True)
    (held_up,) = tell(run)["runs"]
    assert (held_up["state"], held_up["note"]) == ("running", None)
    Ledger(desk.database).pause(list_jobs(desk.database)[0].id, "The model does not load.")
    assert "It is paused: The model does not load." in run("schedule", "list").stdout


@dataclass
class Dispatcher:
    """Takes note of the processes that it starts, which run until `ended` is true; a test runs them in this one."""

    database: Database
    started: list[list[str]] = field(default_factory=list)
    ended: bool = False

    def __post_init__(self) -> None:
        self._submissions = Submissions(make_ticker(self.database))

    def look(self) -> list[list[str]]:
        """The arguments of those that are started by this look."""
        before = len(self.started)
        self._submissions.look()
        return [command[3:] for command in self.started[before:]]

    def start(self, command: list[str], **streams: int) -> "Dispatcher":
        assert command[1:5] == ["-m", "jobs", "schedule", "submit-run"]
        self.started.append(command)
        return self

    def poll(self) -> int | None:
        return 0 if self.ended else None


@pytest.fixture
def dispatcher(desk, monkeypatch) -> Dispatcher:
    dispatcher = Dispatcher(desk.database)
    monkeypatch.setattr(submissions.subprocess, "Popen", dispatcher.start)
    return dispatcher


def test_a_dispatcher_hands_a_run_to_the_fleet_by_a_process_of_its_own(desk, run, add, dispatcher):
    add()
    make_due(desk)
    (command,) = dispatcher.look()
    assert dispatcher.look() == []
    for _ in range(2):  # a message that comes twice starts one job
        assert run(*command, **BROKER).exit_code == 0
    (job,) = list_jobs(desk.database)
    (told,) = tell(run)["runs"]
    assert (job.fleet, job.state, job.name) == (True, JobState.RUNNING, told["job"])
    assert (told["state"], told["job"]) == ("running", f"night-{told['scheduled_for'][:10]}")
    Ledger(desk.database).cancel(job.id, lambda shard: [])
    dispatcher.look()
    assert tell(run)["runs"][0]["state"] == "cancelled"


def test_once_a_fleets_job_is_done_another_process_writes_its_file(desk, run, add, dispatcher, tmp_path):
    output = tmp_path / "out.jsonl"
    add("night", "--incremental")
    assert run("schedule", "run-now", "night").exit_code == 0
    add("night", "--incremental", "--replace", job={"output": str(output), "prompt": "Tell: {text}"})
    make_due(desk, ago_s=0)
    (command,) = dispatcher.look()
    assert run(*command, **BROKER).exit_code == 0
    name = tell(run)["runs"][0]["job"]
    assert run("pause", name).exit_code == 0
    assert run("resume", name, "--here").exit_code == 0
    output.unlink()
    (command,) = dispatcher.look()
    assert tell(run)["runs"][0]["state"] == "begun"
    assert run(*command, **BROKER).exit_code == 0
    (told, _) = tell(run)["runs"]
    assert told["state"] == "done"
    assert told["note"].startswith("The prompt has changed since the last run, ")
    assert len(output.read_text().splitlines()) == 5


def test_a_dispatcher_starts_so_many_processes_at_once_at_most(desk, add, dispatcher):
    add()
    schedules = Schedules(desk.database)
    night = schedules.find("night")
    for number in range(6):
        schedules.add(replace(night, id=f"{number}", name=f"{number}", next_at=schedules.now() - 1))
    assert [len(dispatcher.look()) for _ in range(2)] == [4, 0]
    dispatcher.ended = True
    assert len(dispatcher.look()) == 2


def test_where_a_jobs_name_is_taken_while_its_model_loads_it_gets_another_one(run, add, submit, dispatcher, desk):
    add(job={"name": "reviews"})
    make_due(desk)
    (command,) = dispatcher.look()
    assert submit("--name", "reviews").exit_code == 0
    assert run(*command, **BROKER).exit_code == 0
    assert tell(run)["runs"][0]["job"] == "reviews-2"
    assert {job.name: json.loads(job.spec_json)["name"] for job in list_jobs(desk.database)} == {
        "reviews": "reviews",
        "reviews-2": "reviews-2",
    }


def test_a_tick_tells_of_each_end_before_it_goes_on_and_show_of_what_could_not_be_told(
    desk, run, add, tmp_path, monkeypatch
):
    monkeypatch.setattr(notifier, "_PAUSES_S", (0.0, 0.0))
    told = tmp_path / "told"
    add("first", "--notify-command", f"touch {told}", job={"inputs": "later.csv"})
    add("second", "--notify-command", f"test ! -e {told}")
    make_due(desk, "first", 120)
    make_due(desk, "second")
    assert run("schedule", "tick").exit_code == 1
    (second,) = tell(run, "second")["runs"]
    assert second["notice_error"].startswith("The command `test ! -e ")
    for command in (("show", "second"), ("list",)):
        assert "failed three times: It ended with status 1." in run("schedule", *command).stdout
