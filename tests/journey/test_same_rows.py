"""Rows with the same prompt, from the flags to the results."""

import json

import pytest

from pipeline.inference.engine import Engine
from pipeline.rows import Status

TEXTS = ["a", "b", "a", None, "a", "c", "b"]
ALIKE = [(0, 2, 4), (1, 6), (5,)]


@pytest.fixture
def computed(monkeypatch) -> list[int]:
    """Prompts that went through the engine, by batch."""
    found: list[int] = []
    run = Engine.run

    def counting(self, batch, task):
        if batch.job_id != "rehearsal":
            found.append(len(batch.prompts))
        return run(self, batch, task)

    monkeypatch.setattr(Engine, "run", counting)
    return found


@pytest.mark.parametrize("task", [("--choices", "good,bad"), ("--embed", "mean"), ("--logprobs", "1")])
def test_they_are_computed_once_and_all_have_the_answer(home, submit, table, computed, task):
    done = submit(table(text=TEXTS, id=list("tuvwxyz")), "--key", "id", *task)
    assert done.exit_code == 0
    assert sum(computed) == 3
    found = home.results("night")
    assert [row.key for row in found] == list("tuvwxyz")
    assert [row.status is Status.ERROR for row in found] == [text is None for text in TEXTS]
    for first, *others in ALIKE:
        for other in others:
            assert answer(found[other]) == answer(found[first])
            assert found[other].reused_tokens == found[other].prompt_tokens == found[first].prompt_tokens
            assert found[first].reused_tokens < found[first].prompt_tokens
    assert len({answer(found[first]) for first, *_ in ALIKE}) > 1
    assert home.faults("night") == []


@pytest.mark.parametrize("task", [("--choices", "good,bad"), ("--logprobs", "1")])
def test_they_are_computed_once_wherever_in_the_table_they_are(home, submit, table, computed, task):
    home.variables["PIPELINE_SHARD_ROWS"] = "2"
    done = submit(table(text=TEXTS, id=list("tuvwxyz")), "--key", "id", "--keep-order", *task)
    assert done.exit_code == 0
    assert sum(computed) == 3
    found = home.results("night")
    assert [row.key for row in found] == list("tuvwxyz")
    for first, *others in ALIKE:
        for other in others:
            assert answer(found[other]) == answer(found[first])
            assert found[other].reused_tokens == found[other].prompt_tokens == found[first].prompt_tokens
            assert found[other].copied_from is None
    assert "; 3 of them copied from equal rows or earlier jobs" in done.stdout
    assert home.faults("night") == []


@pytest.mark.parametrize("flags", [("--no-dedupe",), ("--temperature", "1", "--n", "2")])
def test_those_of_several_shards_are_computed_by_themselves_where_those_of_one_are(
    home, submit, table, computed, flags
):
    home.variables["PIPELINE_SHARD_ROWS"] = "2"
    assert submit(table(text=TEXTS), "--keep-order", *flags).exit_code == 0
    assert sum(computed) == 6


@pytest.mark.parametrize("shard_rows", ["2", "9"])
def test_sums_tell_what_was_computed_and_what_was_reused(home, submit, table, shard_rows):
    home.variables["PIPELINE_SHARD_ROWS"] = shard_rows
    assert submit(table(text=TEXTS), "--keep-order").exit_code == 0
    figures, found = home.figures("night"), home.results("night")
    prompt_tokens = sum(row.prompt_tokens for row in found)
    assert figures.computed_tokens + figures.reused_tokens == prompt_tokens
    assert figures.output_tokens == sum(found[first].output_tokens for first, *_ in ALIKE)
    assert (figures.ok + figures.truncated, figures.error) == (6, 1)


def test_each_is_computed_by_itself_where_that_is_asked_for(home, submit, table, computed):
    assert submit(table(text=TEXTS), "--no-dedupe").exit_code == 0
    assert sum(computed) == 6
    apart = home.answers("night")
    assert submit(table(text=TEXTS), "--name", "again").exit_code == 0
    assert home.answers("again") == apart


def test_each_draws_by_itself(home, submit, table, computed):
    assert submit(table(text=["a"] * 6), "--temperature", "2").exit_code == 0
    assert sum(computed) == 6
    assert len({row.output for row in home.results("night")}) > 1


def test_what_breaks_the_engine_breaks_for_all_of_them_and_for_no_other(home, submit, table, monkeypatch):
    run = Engine.run

    def breaking(self, batch, task):
        if any(prompt.row_id == 1 for prompt in batch.prompts):
            raise RuntimeError("a kernel failed")
        return run(self, batch, task)

    monkeypatch.setattr(Engine, "run", breaking)
    assert submit(table(text=TEXTS)).exit_code == 0
    assert [row.error_type for row in home.results("night")] == [None, "engine", None, "null", None, None, "engine"]
    assert home.figures("night").error == 3
    assert home.faults("night") == []


def test_rows_that_are_alike_once_they_are_cut_tell_how_much_of_each_went(home, submit, table):
    texts = ["x" * 900, "x" * 950]
    assert submit(table(text=texts), "--on-too-long", "head").exit_code == 0
    one, other = home.results("night")
    assert other.cut_tokens == one.cut_tokens + 50
    assert (one.reused_tokens, other.reused_tokens)[1] == other.prompt_tokens


def answer(row):
    return row.status, row.output, row.label, row.scores, row.embedding, row.logprobs, row.output_tokens


@pytest.mark.parametrize("flags", [(), ("--choices", "a,b"), ("--temperature", "1", "--n", "3")])
def test_what_was_predicted_is_what_was_reused(home, submit, table, flags):
    pages = ["A long text to read. " * 9, "Another text that rows share. " * 6]
    rows = table(page=[pages[place % 2] for place in range(24)], text=[f"{place % 20:x}" for place in range(24)])
    prompt = (
        ("--prompt", "Read: {page} What of {text}?", "--max-tokens", "2")
        if "--choices" not in flags
        else ("--prompt", "Read: {page} What of {text}?")
    )
    home.variables["PIPELINE_PREFIX_DISK_BYTES"] = "0"
    done = submit(rows, *flags, *prompt)
    assert done.exit_code == 0
    reuse = json.loads(home.call("status", "--json").stdout)["prompt_tokens"]
    assert reuse["reuse_achieved"] == pytest.approx(reuse["reuse_predicted"], abs=0.01)
    assert f"; predicted: {reuse['reuse_predicted']:.0%})" in done.stdout
    assert "than predicted" not in done.stdout
