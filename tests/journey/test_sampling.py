"""Answers that are drawn: the same job gives the same answers, however its rows are batched."""

import pytest

TEXTS = ["tea", "tea", "tea", "a much longer text about tea", "", "milk", "tea, please", "tea"]
DRAWN = ("--temperature", "1.5", "--top-k", "100", "--repetition-penalty", "1.1", "--max-tokens", "8")


@pytest.fixture
def rows(table):
    return table(text=TEXTS)


def outputs(home, name):
    return [result.output for result in home.results(name)]


def test_the_same_job_draws_the_same_answers_in_other_batches(home, submit, rows):
    home.variables["PIPELINE_BATCH_ROWS"] = "7"
    assert submit(rows, *DRAWN).exit_code == 0
    home.variables |= {"PIPELINE_BATCH_ROWS": "1", "PIPELINE_SHARD_ROWS": "2"}
    assert submit(rows, *DRAWN, "--name", "ones").exit_code == 0
    assert outputs(home, "ones") == outputs(home, "night")
    assert len(set(outputs(home, "night"))) == len(TEXTS)


def test_another_seed_draws_other_answers_and_is_another_job(home, submit, rows, told):
    assert submit(rows, *DRAWN).exit_code == 0
    assert submit(rows, *DRAWN, "--seed", "1", "--name", "other").exit_code == 0
    assert not set(outputs(home, "other")) & set(outputs(home, "night"))
    assert "give other results:\n  seed: 0 -> 1\n" in told(submit(rows, *DRAWN, "--seed", "1"), 4)


def test_a_dry_run_draws_too(home, submit, rows):
    result = submit(rows, *DRAWN, "--dry-run")
    assert result.exit_code == 0
    assert "Nothing was recorded." in result.stdout
