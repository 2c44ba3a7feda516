import csv
import io
import json
import subprocess
import sys

import pyarrow.parquet
import pytest

SIX = ["r0", "r1", "r2", "r3", "r4", "r5"]


def test_in_a_pipe_it_is_json_lines_of_everything(desk, run):
    desk.done("night")
    rows = [json.loads(line) for line in run("results", "night").stdout.splitlines()]
    assert [row["id"] for row in rows] == SIX
    assert rows[1] == {
        "row_id": 1,
        "id": "r1",
        "review": "A long story\nin two lines",
        "stars": 1,
        "status": "truncated",
        "output": "answer 1",
        "finish_reason": "stop",
        "error_type": None,
        "error": None,
        "prompt_tokens": 0,
        "reused_tokens": 0,
        "output_tokens": 0,
    }
    assert rows[5]["error"] == "The prompt has 900 tokens."


def test_csv_in_a_pipe(desk, run):
    desk.done("night")
    rows = list(csv.DictReader(io.StringIO(run("results", "night", "--format", "csv").stdout)))
    assert [row["id"] for row in rows] == SIX
    assert rows[3]["review"] == "日本語のレビューです"


def test_parquet_in_a_pipe(desk, environment):
    desk.done("night")
    command = [sys.executable, "-c", "from jobs.cli import main; main()", "results", "night", "--format", "parquet"]
    written = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert pyarrow.parquet.read_table(io.BytesIO(written)).column("id").to_pylist() == SIX


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.ndjson", "out.PARQUET"])
def test_the_name_of_the_file_tells_its_format(desk, run, tmp_path, name):
    desk.done("night")
    target = tmp_path / name
    result = run("results", "night", "--output", str(target))
    assert (result.exit_code, result.stdout) == (0, f"6 rows written to {target}\n")
    start = target.read_bytes()[:4]
    assert start == {"out.csv": b'"row', "out.PARQUET": b"PAR1"}.get(name, b'{"ro')


def test_format_wins_over_the_name(desk, run, tmp_path):
    desk.done("night")
    target = tmp_path / "out.csv"
    told = run("results", "night", "--output", str(target), "--format", "jsonl").stderr
    assert told == f"{target} is written as jsonl, as --format asks, whatever its name tells.\n"
    assert json.loads(target.read_text().splitlines()[0])["id"] == "r0"


def test_what_is_written_to_a_stream_is_not_mixed_with_words(desk, run):
    desk.done("night")
    told = run("results", "night", "--output", "/dev/null", "--format", "csv")
    assert (told.stdout, told.stderr) == ("", "6 rows written to /dev/null\n")


def test_status_and_limit_choose_rows(desk, run, tmp_path):
    desk.done("night")
    target = tmp_path / "out.jsonl"
    assert (
        run("results", "night", "--status", "error", "--output", str(target)).stdout == f"1 row written to {target}\n"
    )
    limited = run("results", "night", "--status", "ok", "--limit", "2").stdout.splitlines()
    assert [json.loads(line)["id"] for line in limited] == ["r0", "r2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--output", "out.txt"],
            "The name out.txt does not tell its format. Let it end in .csv, .jsonl or .parquet, or give --format.",
        ),
        (
            ["--output", "out.csv", "--format", "table"],
            "A table is for looking at; for --output choose --format csv, jsonl or parquet.",
        ),
    ],
)
def test_what_makes_no_sense_together_is_refused(run, arguments, message):
    result = run("results", "night", *arguments)
    assert (result.exit_code, result.stderr) == (2, f"Error: {message}\n")


def test_an_output_that_cannot_be_written_is_told(desk, run, tmp_path):
    desk.done("night")
    result = run("results", "night", "--output", str(tmp_path / "nowhere" / "out.csv"))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path / 'nowhere' / 'out.csv'} cannot be written: ")


def test_an_unknown_job(desk, run):
    desk.done("night")
    result = run("results", "nite")
    assert (result.exit_code, result.stderr) == (3, 'Error: There is no job "nite". Did you mean "night"?\n')


def test_parquet_is_not_poured_onto_a_terminal(desk, terminal):
    desk.done("night")
    assert terminal("results", "night", "--format", "parquet") == (
        "Error: Parquet is not text to be read on a terminal. Give --output FILE.parquet, or send it to a pipe.\n"
    )


def test_on_a_terminal_it_is_a_table_that_fits(desk, terminal):
    desk.done("night")
    shown = terminal("results", "night", COLUMNS="60")
    lines = [line for line in shown.splitlines() if line.strip(" ─")]
    assert lines[0].split() == ["id", "review", "stars", "STATUS", "ANSWER", "ERROR"]
    assert [line.split()[0] for line in lines[1:]] == SIX
    assert lines[2].split()[-3:] == ["truncated", "answer", "1"]
    assert "Too long" in lines[6]
    assert "…" in lines[6]
    assert max(map(len, lines)) <= 60


def test_a_table_in_a_pipe_is_lines_with_tabs(desk, run):
    desk.done("night")
    result = run("results", "night", "--format", "table", "--limit", "2")
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["id", "review", "stars", "STATUS", "ANSWER"],
        ["r0", "Lovely", "0", "ok", "answer 0"],
        ["r1", "A long story in two lines", "1", "truncated", "answer 1"],
    ]
    assert result.stderr == "4 more; --limit N shows more of them, --output FILE writes them all to a file.\n"


def test_choices_show_their_label_and_score(desk, run):
    desk.done("night", choices=["good", "bad"], key=None)
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["ROW", "review", "stars", "STATUS", "LABEL", "SCORE", "ERROR"]
    assert lines[2] == ["1", "A long story in two lines", "1", "ok", "bad", "0.88", ""]
    assert lines[6] == ["5", "Too long", "5", "error", "", "", "The prompt has 900 tokens."]


def test_several_labels_show_how_likely_each_is(desk, run):
    desk.done("night", choices=["good", "bad"], multi_label=True, key=None)
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["ROW", "review", "stars", "STATUS", "LABELS", "ERROR"]
    assert lines[2] == ["1", "A long story in two lines", "1", "ok", "bad 0.88, good 0.50", ""]
    assert lines[6][4:] == ["", "The prompt has 900 tokens."]


def test_a_score_shows_the_text_that_it_is_of(desk, run):
    desk.done("night", score="stars", prompt="{review}", key=None)
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["ROW", "review", "stars", "STATUS", "LOGPROB", "PERPLEXITY", "ERROR"]
    assert lines[2] == ["1", "A long story in two lines", "1", "ok", "-8.12", "7.62", ""]
    assert lines[6][4:6] == ["", ""]


def test_an_embedding_shows_how_it_begins(desk, run):
    desk.done("night", embed="mean", key=None)
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["ROW", "review", "stars", "STATUS", "EMBEDDING", "ERROR"]
    assert lines[2] == ["1", "A long story in two lines", "1", "ok", "4 numbers: 0.500, -0.500, 1.000, …", ""]
    assert lines[6][4] == ""


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_embedding_is_a_json_list(desk, run, form):
    desk.done("night", embed="mean")
    line = run("results", "night", "--format", form, "--limit", "1").stdout.splitlines()[-1]
    assert ('"[0.5, -0.5, 0.0, 0.125]"' if form == "csv" else '"embedding": [0.5, -0.5, 0.0, 0.125]') in line


def test_samples_are_a_line_each(desk, run):
    desk.done("night", temperature=1, n=2)
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["id", "review", "stars", "SAMPLE", "STATUS", "ANSWER", "ERROR"]
    assert [line[0] for line in lines[1:]] == ["r0", "r0", "r1", "r1", "r2", "r2", "r3", "r3", "r4", "r4", "r5"]
    assert lines[3] == ["r1", "A long story in two lines", "1", "0", "ok", "answer 1", ""]
    assert lines[4] == ["r1", "A long story in two lines", "1", "1", "truncated", "answer 1.1", ""]
    assert lines[11] == ["r5", "Too long", "5", "", "error", "", "The prompt has 900 tokens."]


def test_a_table_has_so_many_answers_or_the_rows_that_were_asked_for(desk, run):
    desk.done("night", temperature=1, n=8)
    short = run("results", "night", "--format", "table")
    assert len(short.stdout.splitlines()) == 1 + 2 * 8
    assert short.stderr.startswith("4 more; --limit N shows more of them")
    assert len(run("results", "night", "--format", "table", "--limit", "3").stdout.splitlines()) == 1 + 3 * 8
    desk.done("more", temperature=1, n=64)
    assert len(run("results", "more", "--format", "table").stdout.splitlines()) == 1 + 64


def test_samples_in_a_pipe_are_nested(desk, run):
    desk.done("night", temperature=1, n=2)
    rows = [json.loads(line) for line in run("results", "night").stdout.splitlines()]
    assert rows[1]["samples"] == [
        {"output": "answer 1", "finish_reason": "stop", "output_tokens": 2},
        {"output": "answer 1.1", "finish_reason": "length", "output_tokens": 2},
    ]
    assert (rows[5]["samples"], "logprobs" in rows[5]) == (None, False)


def test_input_columns_named_like_ours_are_told_apart(desk, run):
    desk.rename = {"review": "status", "stars": "row_id"}
    desk.done("night", prompt="{status} is {row_id}")
    lines = [line.split("\t") for line in run("results", "night", "--format", "table").stdout.splitlines()]
    assert lines[0] == ["id", "status", "row_id", "STATUS", "ANSWER", "ERROR"]
    assert lines[1] == ["r0", "Lovely", "0", "ok", "answer 0", ""]


def test_a_job_without_results_says_so(desk, run):
    desk.cutting("new")
    result = run("results", "new", "--format", "table")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "new has no results yet.\n")


def test_a_status_that_no_row_has_says_so(desk, run):
    desk.done("night")
    result = run("results", "night", "--format", "table", "--status", "cancelled")
    assert result.stderr == "night has no rows that ended as cancelled.\n"
