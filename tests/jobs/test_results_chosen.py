"""Rows and columns that are asked for by name."""

import json


def lines(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_where_and_status_and_limit_choose_rows_together(desk, run):
    desk.done("night", choices=["good", "bad"])
    good = run("results", "night", "--where", "label = 'good' and score > 0.8")
    assert [row["id"] for row in lines(good)] == ["r0", "r2", "r4"]
    some = run("results", "night", "--where", "row_id > 0", "--status", "ok", "--limit", "2")
    assert [row["id"] for row in lines(some)] == ["r1", "r2"]
    shown = run("results", "night", "--where", "row_id >= 1", "--format", "table", "--limit", "1")
    assert shown.stdout.splitlines()[1].startswith("r1\t")
    assert shown.stderr.startswith("4 more; ")
    none = run("results", "night", "--where", "row_id > 99", "--format", "table")
    assert none.stderr == "night has no such rows.\n"
    piped = run("results", "night", "--where", "row_id > 99")
    assert (piped.stdout, piped.stderr) == ("", none.stderr)


def test_columns_are_those_of_the_result_alone(desk, run):
    job = desk.done("night", choices=["good", "bad"])
    for shard in (desk.home / "jobs" / job.id / "shards").iterdir():
        shard.unlink()
    rows = lines(run("results", "night", "--columns", "key,label, score,scores", "--status", "ok", "--limit", "2"))
    assert rows[1] == {
        "key": "r1", "label": "bad", "score": 0.876,
        "scores": [{"label": "good", "probability": 0.5}, {"label": "bad", "probability": 0.876}],
    }  # fmt: skip
    shown = run("results", "night", "--columns", "key,score", "--format", "table", "--limit", "1")
    assert shown.stdout == "key\tscore\nr0\t0.876\n"


def test_when_a_row_was_answered_can_be_shown_and_asked(desk, run):
    desk.done("night")
    rows = lines(run("results", "night", "--columns", "answered_at", "--where", "answered_at > '2020-01-01'"))
    assert len(rows) == 6
    assert rows[0]["answered_at"].startswith("20")
    assert lines(run("results", "night", "--where", "answered_at < '2020-01-01' and stars > 0")) == []
    told = run("results", "night", "--where", "answered_at > 'yesterday'")
    assert (told.exit_code, told.stderr.split("Write ")[1][:12]) == (2, "'2026-12-01'")


def test_the_input_stands_beside_them_where_it_is_asked_for(desk, run):
    desk.done("night")
    [row] = lines(run("results", "night", "--columns", "key,output", "--join-input", "--where", "key = 'r4'"))
    assert row == {"id": "r4", "review": "Fine", "stars": 4, "key": "r4", "output": "answer 4"}


def test_a_column_that_is_not_there_is_told(desk, run):
    desk.done("night")
    result = run("results", "night", "--columns", "key,lable")
    assert result.exit_code == 2
    assert result.stderr.startswith('Error: The results of night have no column "lable".')
    assert run("results", "night", "--where", "labl = 'x'").exit_code == 2
    told = run("results", "night", "--columns", "key,stars", "--join-input").stderr
    assert told == 'Error: The column "stars" is of the input, which --join-input writes whole. Take it out.\n'


def test_where_asks_of_results_and_input_together(desk, run, tmp_path):
    desk.done("night", choices=["good", "bad"])
    asked = "label = 'good' and stars > 0 or review like 'Fi%'"
    assert [row["id"] for row in lines(run("results", "night", "--where", asked))] == ["r2", "r4"]
    some = run(
        "results", "night", "--where", "stars > 0 and attempt = 1", "--columns", "label", "--join-input", "--limit", "2"
    )
    assert [list(row.values())[-2:] for row in lines(some)] == [[1, "bad"], [2, "good"]]
    shown = run("results", "night", "--where", "stars >= 1", "--format", "table", "--limit", "2")
    assert [line[:2] for line in shown.stdout.splitlines()[1:]] == ["r1", "r2"]
    assert shown.stderr.startswith("There are more; --limit N shows more")
    none = run("results", "night", "--where", "stars > 99", "--format", "table")
    assert (none.stdout, none.stderr) == ("", "night has no such rows.\n")
    within = run(
        "results", "night", "--where", "scores.1.probability > 0.6 and stars > 1", "--columns", "key", "--join-input"
    )
    assert [row["key"] for row in lines(within)] == ["r3"]
    told = run("export", "night", "--where", "stars = 4", "--to", f"sqlite:///{tmp_path}/answers.db", "--table", "t")
    assert told.stdout == "1 row written to t\n"


def test_a_name_that_both_have_is_the_results(desk, run):
    desk.rename = {"stars": "label"}
    desk.done("night", choices=["good", "bad"], prompt="{review}")
    [row] = lines(run("results", "night", "--where", "label = 'good' and input.label > 2 and input.id like 'r%'"))
    assert (row["label"], row["result_label"]) == (4, "good")


def test_what_where_asks_in_vain_is_told(desk, run):
    desk.done("night")
    told = run("results", "night", "--where", "stars < 3", "--columns", "key")
    assert told.exit_code == 2
    assert told.stderr.startswith('Error: --where asks of a column "stars" that is not there.')
    assert told.stderr.endswith("With --join-input, it may ask of the input's columns too.\n")
    told = run("results", "night", "--where", "sters < 3")
    assert (told.exit_code, 'not there. Did you mean "stars"?' in told.stderr) == (2, True)
    told = run("results", "night", "--where", "stars = 'many'")
    assert (told.exit_code, 'compares the column "stars", which is int64' in told.stderr) == (2, True)
    assert run("results", "night", "--where", "stars.x = 1").exit_code == 2
