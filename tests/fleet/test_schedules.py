"""A schedule whose runs a real dispatcher starts, in processes of their own that are killed."""

import os
import signal
from pathlib import Path

import yaml

from pipeline.store.queries import list_jobs
from pipeline.store.schedule_records import RunState
from pipeline.store.schedules import Schedules
from tests.fleet.fleet import Fleet


def started_by(pid: int) -> list[int]:
    """By any of its threads."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_a_submission_that_is_killed_is_gone_on_with(postgresql_fleet: Fleet, rows: Path, tmp_path: Path):
    fleet, schedules = postgresql_fleet, Schedules(postgresql_fleet.engine)
    job = {"inputs": str(rows), "model": str(fleet.model), "prompt": "Say: {text}", "limit": 24, "max_tokens": 2}
    told = tmp_path / "told"
    hook = {"command": f"cat >> {told}"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job | {"notify": hook, "output": f"{tmp_path}/out.jsonl"}))
    added = fleet.run("schedule", "add", "night", "--cron", "0 0 29 2 *", "--job", str(tmp_path / "job.yaml"))
    assert added.exit_code == 0, added.output
    night = schedules.find("night")
    before = {found.id for found in list_jobs(fleet.engine)}

    def new_jobs() -> list[str]:
        return [found.name for found in list_jobs(fleet.engine) if found.id not in before]

    with fleet.held("cutting"):
        schedules.pause(night)
        assert schedules.resume(night, schedules.now())
        fleet.until(new_jobs)
        (submission,) = started_by(fleet.processes["dispatcher"].pid)
        os.kill(submission, signal.SIGKILL)
    fleet.until(lambda: [run.state for run in schedules.runs(night)] == [RunState.DONE])
    (name,) = new_jobs()
    figures = fleet.seen.figures(name)
    assert figures.finished == figures.total == len((tmp_path / "out.jsonl").read_text().splitlines())
    fleet.until(lambda: told.exists() and told.read_text().endswith("}\n"))
    assert told.read_text().count('"event": "done"') == 1
    schedules.remove(night)
