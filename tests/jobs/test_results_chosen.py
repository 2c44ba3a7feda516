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
