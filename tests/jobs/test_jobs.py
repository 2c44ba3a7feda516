import json
from datetime import datetime

from workers.process import Members


def test_without_jobs_it_tells_where_it_looked_and_how_to_begin(run, home):
    result = run("jobs")
    assert result.exit_code == 0
    assert result.stdout == ""
    place = home / "pipeline.db"
    assert result.stderr == f"There are no jobs yet in {place}. `pipeline submit --help` tells how to begin.\n"


def test_json_without_jobs_is_an_empty_array(run):
    assert json.loads(run("jobs", "--json").stdout) == []


def test_a_line_for_each_job_the_newest_first(desk, run):
    made = [
        desk.done("night"),
        desk.cutting("half"),
        desk.running("stopped", batches=1),
        desk.running("busy", batches=2),
    ]
    gone = desk.running("gone", batches=1)
    desk.ledger.cancel(gone.id, lambda shard: [(row, f"r{row}") for row in range(shard.row_from, shard.row_to)])
    with Members(desk.home).joined(made[3].id):
        lines = run("jobs").stdout.splitlines()
    night, half, stopped, busy = (
        [f"{datetime.fromtimestamp(job.submitted_at):%Y-%m-%d %H:%M}", job.id[:8]] for job in made
    )
    assert [line.split("\t") for line in lines] == [
        ["NAME", "STATE", "ROWS", "ERRORS", "SUBMITTED", "ID"],
        ["gone", "cancelled", "3/6", "1", f"{datetime.fromtimestamp(gone.submitted_at):%Y-%m-%d %H:%M}", gone.id[:8]],
        ["busy", "running", "5/6", "1", *busy],
        ["stopped", "interrupted", "3/6", "1", *stopped],
        ["half", "interrupted", "0/?", "0", *half],
        ["night", "done", "6/6", "1", *night],
    ]


def test_json_has_the_figures_of_each(desk, run):
    job = desk.done("night")
    (told,) = json.loads(run("jobs", "--json").stdout)
    assert told["job"] == "night"
    assert told["id"] == job.id
    assert told["state"] == "done"
    assert told["rows"] == {"total": 6, "ok": 4, "truncated": 1, "error": 1, "cancelled": 0, "copied": 0}


def test_on_a_terminal_it_is_a_table(desk, terminal):
    job = desk.done("night")
    lines = [line.split() for line in terminal("jobs").splitlines() if line.strip(" ─")]
    assert lines[0] == ["NAME", "STATE", "ROWS", "ERRORS", "SUBMITTED", "ID"]
    assert lines[1][:4] == ["night", "done", "6/6", "1"]
    assert lines[1][-1] == job.id[:8]


def test_a_terminal_has_colours_unless_no_color_is_set(desk, terminal):
    desk.done("night")
    assert "\x1b[32mdone" in terminal("jobs", NO_COLOR="")
    assert "\x1b[" not in terminal("jobs", NO_COLOR="1")
