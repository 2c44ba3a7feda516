"""Only some rows of a table: those that fulfil a condition, and some drawn of them; the same ones each time."""

import json

import pytest


@pytest.fixture
def rows(table):
    return table(text=[f"t{number}" for number in range(20)], n=list(range(20)), id=[f"k{n}" for n in range(20)])


def taken(home):
    return [json.loads(line)["n"] for line in home.call("results", "night").stdout.splitlines()]


def test_a_condition_takes_rows_before_the_limit(home, submit, rows):
    done = submit(rows, "--where", "n >= 10 and text != 't12'", "--limit", "4", "--key", "id")
    assert done.exit_code == 0, done.stderr
    assert taken(home) == [10, 11, 13, 14]
    found = home.results("night")
    assert [(result.row_id, result.key) for result in found] == [(0, "k10"), (1, "k11"), (2, "k13"), (3, "k14")]
    assert "11 of the 20 rows read were left out by --where and --sample." in done.stderr
    assert home.faults("night") == []


def test_a_sample_is_the_same_one_each_time(home, submit, rows, tmp_path):
    assert submit(rows, "--sample", "5", "--seed", "7", "--choices", "a,b").exit_code == 0
    found = taken(home)
    assert len(found) == 5
    assert found == sorted(found)
    assert "night is the same job as before." in submit(rows, "--sample", "5", "--seed", "7", "--choices", "a,b").stderr
    assert taken(home) == found


def test_a_cut_that_was_stopped_goes_on_with_the_same_rows(home, make_home, submit, rows, full_disk):
    home.variables["PIPELINE_SHARD_ROWS"] = "2"
    flags = ("--where", "n > 3", "--sample", "60%")
    with full_disk(behind=4):
        assert submit(rows, *flags).exit_code == 75
    assert home.call("resume", "night").exit_code == 0
    assert submit(rows, *flags, "--name", "whole").exit_code == 0
    assert taken(home) == [json.loads(line)["n"] for line in home.call("results", "whole").stdout.splitlines()]
    assert 3 < len(taken(home)) < 16


def test_a_dry_run_tells_what_is_left_out(submit, rows):
    shown = submit(rows, "--where", "n in (3, 4)", "--dry-run")
    assert shown.stdout.startswith("18 of the 20 rows read were left out by --where and --sample.\n")
    assert "Say: t3" in shown.stdout
    assert "Estimate for the input: 2 rows" in shown.stdout


@pytest.mark.parametrize(
    ("flags", "status", "message"),
    [
        (["--where", "n >"], 2, "--where cannot be read at its end: there should be a number"),
        (["--where", "nn > 1"], 1, 'The input has no column "nn". Did you mean "n"?'),
        (
            ["--where", "n > 99"],
            1,
            "--where and --sample take none of the input's rows, so there is nothing to answer.",
        ),
        (["--where", "n > 99", "--dry-run"], 1, "--where and --sample take none of the input's rows"),
        (["--sample", "0"], 2, "--sample is a number of rows or a share, such as 1000 or 10%, and not 0."),
        (["--sample", "101%"], 2, "--sample is a number of rows or a share"),
        (["--seed", "3"], 2, "--seed needs --temperature above 0"),
    ],
)
def test_what_takes_no_rows_leaves_no_job(home, submit, rows, told, flags, status, message):
    assert told(submit(rows, *flags), status).startswith(message)
    assert json.loads(home.call("jobs", "--json").stdout) == []


def test_a_key_that_is_empty_is_told_by_its_place_among_those_taken(submit, table, told):
    rows = table(text=["a", "b", "c"], id=["x", None, None])
    assert "is empty in row 2 of those taken of " in told(submit(rows, "--key", "id", "--where", "text != 'b'"), 1)


def test_standard_input_gives_a_share_but_not_a_number(home, submit, told):
    lines = b"".join(b'{"text": "a", "n": %d}\n' % number for number in range(20))
    assert told(submit("-", "--sample", "5", stdin=lines), 2).startswith("--sample 5 reads its input twice")
    assert submit("-", "--sample", "50%", "--where", "n < 18", stdin=lines).exit_code == 0
    assert 2 < len(taken(home)) < 18
