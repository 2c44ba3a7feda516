"""`pipeline schedule`, from adding one to what came of its nights."""

import json

import pytest

from tests.jobs.schedules import tell
from workers import notifier


def test_a_schedule_is_added_shown_paused_resumed_and_removed(run, add, rows):
    flags = {"--cron": "0 2 * * *", "--tz": "Europe/Berlin", "--grace": "90m"}
    flags["--notify-url"] = "https://hooks.example.com/S3CRET"
    result = add("night", *(word for flag in flags.items() for word in flag))
    assert result.exit_code == 0, result.output
    first, _, second = result.stdout.partition("\n")
    assert first.startswith("night: At 02:00 every day, Europe/Berlin; next at ")
    assert second.startswith("Nothing starts it yet: ")
    shown = run("schedule", "show", "night").stdout
    assert f"read from {rows.parent}/job.yaml on " in shown
    assert "a run is started up to 1.5 hours late" in shown
    assert "a POST to https://hooks.example.com/..." in shown
    assert "It has not run yet." in shown
    assert "S3CRET" not in shown + run("schedule", "show", "night", "--json").stdout
    assert run("schedule", "pause", "night").exit_code == 0
    assert run("schedule", "list").stdout.splitlines()[1].split("\t") == ["night", "paused", "", "", "", ""]
    assert run("schedule", "resume", "night").stdout.endswith("02:00, Europe/Berlin.\n")
    assert run("schedule", "remove", "night").exit_code == 0
    assert run("schedule", "show", "night").exit_code == 3
    assert "There are no schedules yet" in run("schedule", "list").stderr


def test_the_next_times_tell_what_daylight_saving_makes_of_them(run, add):
    add("night", "--tz", "Europe/Berlin", "--cron", "30 2 28-31 3,10 *")
    told = run("schedule", "next", "night", "--count", "60").stdout
    assert "does not exist that night; the clock goes on to 03:00" in told
    assert "02:30 comes twice that night; the first counts" in told


@pytest.mark.parametrize(
    ("arguments", "job", "why"),
    [
        (("--cron", "0 25 * * *"), {}, "Bad hour"),
        (("--tz", "Europe/Berln"), {}, 'Did you mean "Europe/Berlin"?'),
        (("--name", "{day}"), {}, "has a field {day}"),
        (("--name", "n" * 61), {}, "more than 60 characters"),
        (("--notify-url", "https://user:pass@example.com"), {}, "must not be kept"),
        (("--notify-url", "https://example.com", "--notify-command", "true"), {}, "are several hooks"),
        (("--incremental",), {"temperature": 1}, "--incremental has no meaning with temperature"),
        ((), {"prompt": "@nowhere.txt"}, "The prompt file"),
        ((), {"prompt": "Say: {txet}"}, "txet"),
        ((), {"inputs": "-"}, "Standard input can be read only once"),
        ((), {"model": "/nowhere"}, "There is no model at /nowhere"),
        ((), {"modle": "m"}, 'Did you mean "model"?'),
    ],
)
def test_what_would_fail_at_night_is_told_by_day(run, add, arguments, job, why):
    result = add("night", *arguments, job=job)
    assert result.exit_code in (1, 2)
    assert why in result.stderr
    assert json.loads(run("schedule", "list", "--json").stdout) == []


def test_an_input_that_is_not_there_yet_is_looked_for_at_each_run(add):
    result = add(job={"inputs": "later-*.csv"})
    assert result.exit_code == 0
    assert "It is looked for again at each run." in result.stderr


def test_a_name_is_taken_once(add):
    assert add().exit_code == 0
    result = add()
    assert (result.exit_code, "--replace" in result.stderr) == (4, True)
    assert add("night", "--replace").exit_code == 0
    assert add("other", "--replace").exit_code == 3


def test_only_what_is_new_is_answered(run, add, rows):
    assert (
        add("night", "--incremental", job={"inputs": "rows*.csv", "name": "reviews-{date}-{schedule}"}).exit_code == 0
    )
    first = run("schedule", "run-now", "night")
    assert "nightly   5 new, beside the run before" in first.stdout
    text = rows.read_text().replace("r1,Hello 1\n", "").replace("Hello 2", "Good day")
    rows.write_text(f"{text}r9,Hello 9\n")
    (rows.parent / "rows-2.csv").write_text("id,text\nr8,Hello 8\n")
    second = run("schedule", "run-now", "night")
    assert "nightly   2 new, 3 reused, 1 changed, 1 gone, beside the run before" in second.stdout
    assert "anew" not in second.stderr
    newest, oldest = tell(run)["runs"]
    assert newest["difference"] == {"new": 2, "reused": 3, "changed": 1, "again": 0, "gone": 1}
    assert (newest["state"], oldest["state"]) == ("done", "done")
    assert newest["job"] == f"{oldest['job']}-2"
    assert oldest["job"].endswith("-night")
    changed = "The prompt has changed since the last run, "
    assert changed in add("night", "--incremental", "--replace", job={"prompt": "Tell: {text}"}).stdout
    assert changed in run("schedule", "list").stdout
    assert changed in run("schedule", "show", "night").stdout
    third = run("schedule", "run-now", "night")
    assert changed in third.stderr
    assert "nightly   6 changed, beside the run before" in third.stdout
    assert "has changed" not in run("schedule", "list").stdout


def test_answers_of_others_are_not_taken_over_and_what_a_run_copies_from_itself_was_new(run, add, submit, rows):
    assert submit().exit_code == 0
    rows.write_text(f"{rows.read_text()}r9,Hello 0\n")
    add("night", "--incremental")
    told = run("schedule", "run-now", "night", PIPELINE_SHARD_ROWS="2").stdout
    assert "1 of them copied" in told
    assert "nightly   6 new, beside" in told


def test_the_hook_of_a_job_file_is_told_and_fails_no_job(run, job_file, tmp_path, monkeypatch):
    monkeypatch.setattr(notifier, "_PAUSES_S", (0.0, 0.0))
    for number, command in enumerate((f"cat > {tmp_path}/told", "exit 3")):
        asked = job_file(name=f"job{number}", notify={"command": command})
        assert run("submit", "--job", str(asked)).exit_code == 0
    assert json.loads((tmp_path / "told").read_text())["job"] == "job0"
    assert "The command `exit 3` failed three times" in run("status", "job1").stdout
    assert "notice" not in run("status", "job0").stdout
