"""Answers that are copied from earlier jobs, from the flag to the results."""

import json

import pytest

from pipeline.rows import Status
from pipeline.store.queries import find_job
from tests.earlier import told_apart_as_before
from tests.journey.test_same_rows import answer

REUSE = ("--name", "again", "--reuse-results")


@pytest.mark.parametrize("task", [("--logprobs", "1"), ("--choices", "good,bad"), ("--embed", "last")])
def test_rows_that_were_answered_before_are_copied_and_marked(home, submit, table, tmp_path, task):
    assert submit(table(text=["a", "b", None, "c", "b"]), *task).exit_code == 0
    output = tmp_path / "again.jsonl"
    done = submit(table("new.parquet", text=["x", "c", "b", None, "a", "b"]), *task, *REUSE, "--output", output)
    assert done.exit_code == 0
    old, new = home.results("night"), home.results("again")
    origin = find_job(home.database(), "night").id
    assert [row.copied_from for row in new] == [None, origin, origin, None, origin, origin]
    for at, before in {1: 3, 2: 1, 4: 0, 5: 1}.items():
        assert answer(new[at]) == answer(old[before])
        assert (new[at].row_id, new[at].key) == (at, str(at))
        assert new[at].reused_tokens == new[at].prompt_tokens == old[before].prompt_tokens
    assert new[3].status is Status.ERROR
    told = home.figures("again")
    assert told.computed_tokens < home.figures("night").computed_tokens
    assert told.computed_tokens + told.reused_tokens == told.prompt_tokens == sum(row.prompt_tokens for row in new)
    assert "; 4 of them copied from equal rows or earlier jobs" in done.stdout
    written = [json.loads(line)["copied_from"] for line in output.read_text().splitlines()]
    assert written == [row.copied_from for row in new]
    assert home.faults("again") == []


def test_without_the_flag_nothing_is_copied(home, submit, table):
    rows = table(text=["a", "b"])
    for name in ("night", "again"):
        assert submit(rows, "--name", name).exit_code == 0
    assert [row.copied_from for row in home.results("again")] == [None, None]
    assert home.figures("again").copied == 0


@pytest.mark.parametrize(
    "other", [("--max-tokens", "5"), ("--prompt", "Tell: {text}"), ("--stop", "z"), ("--dtype", "bfloat16")]
)
def test_what_was_asked_for_in_another_way_is_not_copied(home, submit, table, other):
    assert submit(table(text=["a", "b"]), "--dtype", "float32").exit_code == 0
    assert submit(table(text=["a", "b"]), "--dtype", "float32", *other, *REUSE).exit_code == 0
    assert home.figures("again").copied == 0


def test_later_shards_take_answers_of_earlier_ones(home, submit, table):
    home.variables["PIPELINE_SHARD_ROWS"] = "2"
    rows = table(text=["a", "b", "b", "c", "a", "b"])
    assert submit(rows, "--reuse-results", "--keep-order").exit_code == 0
    own = find_job(home.database(), "night").id
    assert [row.copied_from for row in home.results("night")] == [None, None, own, None, own, own]
    assert home.faults("night") == []


def test_a_job_of_which_all_is_known_is_done_at_once(home, submit, table):
    rows = table(text=["a", "b"])
    assert submit(rows).exit_code == 0
    assert submit(rows, *REUSE).exit_code == 0
    assert home.figures("again").computed_tokens == 0
    assert {number: found[1:] for number, found in home.answers("again").items()} == {
        number: found[1:] for number, found in home.answers("night").items()
    }


def test_answers_that_are_drawn_are_not_to_be_reused(submit, table, told):
    assert "--reuse-results has no meaning with --temperature" in told(
        submit(table(text=["a"]), "--reuse-results", "--temperature", "1"), 2
    )


def test_what_may_be_of_another_model_is_not_copied(home, submit, table, tiny_model, full_disk):
    """Earlier versions knew a model by the ends of its files."""
    rows = table(text=["a", "b"])
    for name, flags in {"night": (), "again": REUSE}.items():
        with full_disk(behind=0):
            assert submit(rows, *flags).exit_code == 75
        told_apart_as_before(home.path, tiny_model)
        assert home.call("resume", name).exit_code == 0
    assert submit(rows, "--name", "new", "--reuse-results").exit_code == 0
    assert [home.figures(name).copied for name in ("night", "again", "new")] == [0, 0, 0]
