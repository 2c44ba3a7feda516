import json
import sqlite3

import pytest


def test_a_file_has_what_was_chosen(desk, run, tmp_path):
    desk.done("night")
    target = tmp_path / "out.jsonl"
    told = run("export", "night", "--output", str(target), "--columns", "key,status", "--where", "row_id >= 4")
    assert told.stdout == f"2 rows written to {target}\n"
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert rows == [{"key": "r4", "status": "ok"}, {"key": "r5", "status": "error"}]


def test_a_table_has_each_row_once_however_often_it_is_written(desk, run, tmp_path):
    job = desk.done("night", choices=["good", "bad"])
    target = tmp_path / "answers.db"
    for _ in range(2):
        told = run("export", "night", "--to", f"sqlite:///{target}", "--table", "moods", "--columns", "key,label,score")
        assert (told.exit_code, told.stdout) == (0, "6 rows written to moods\n")
    with sqlite3.connect(target) as connection:
        found = connection.execute("SELECT * FROM moods ORDER BY row_id").fetchall()
    connection.close()
    assert len(found) == 6
    assert found[1] == ("night", job.id, 1, "r1", "bad", 0.876)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--output", "a.csv", "--to", "sqlite:///a.db", "--table", "t"], ["--to", "sqlite:///a.db"], ["--table", "t"]],
)
def test_one_target_is_named(desk, run, arguments):
    told = run("export", "night", *arguments)
    assert (told.exit_code, told.stderr) == (2, "Error: Give either --output FILE, or --to URL and --table T.\n")


@pytest.mark.parametrize("command", [("export", "night"), ("compare", "night", "night", "--changed")])
def test_a_name_that_tells_no_format_is_refused_with_what_the_command_takes(desk, run, command):
    desk.done("night")
    told = run(*command, "--output", "out.txt")
    assert told.exit_code == 2
    assert told.stderr.endswith("does not tell its format. Let it end in .csv, .jsonl or .parquet.\n")


def test_an_input_is_not_written_over(desk, run):
    desk.done("night")
    told = run("export", "night", "--output", str(desk.home / "reviews.jsonl"))
    assert told.exit_code == 2
    assert "is an input of night, which would be lost" in told.stderr
