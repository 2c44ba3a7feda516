"""Answers beside the rows that they answer: in files, as JSON, as labels, cut where they are to be cut."""

import csv
import json
import random
from dataclasses import replace
from functools import partial

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pipeline.inference.completions import Finished
from pipeline.rows import BatchTiming, Completion, Status
from tests.conftest import byte_tokenizer

KEYS = {
    "job", "id", "state", "rows", "submitted_at", "finished_at", "active_seconds", "rows_per_second", "prompt_tokens",
    "output_tokens",
    "texts", "seconds", "difference", "notice_error", "purged", "error", "next",
}  # fmt: skip
RESULT = [
    "status", "output", "finish_reason", "error_type", "error", "prompt_tokens", "reused_tokens", "output_tokens",
]  # fmt: skip


@pytest.fixture
def rows(table):
    return table(stars=[5, 1, 3, 2], text=["a", None, 'b "quoted", and\nbroken', "d"], id=["w", "x", "y", "z"])


def expected(home, rows, of_result=RESULT):
    """The rows of a file of results, as the database and the input have them."""
    values = pq.read_table(rows).to_pylist()
    results = home.results("night")
    return [
        {"row_id": result.row_id, **row, **{name: getattr(result, name) for name in of_result}}
        for row, result in zip(values, results, strict=True)
    ]


def read_csv(path):
    convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    return pyarrow.csv.read_csv(path, parse_options=parse, convert_options=convert).to_pylist()


READ = {
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "csv": read_csv,
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().split("\n")[:-1]],
}


@pytest.mark.parametrize("kind", sorted(READ))
def test_the_output_file_has_every_row_and_column(home, submit, rows, tmp_path, kind):
    path = tmp_path / f"answers.{kind}"
    result = submit(rows, "--output", path, "--key", "id", "--choices", "good,bad")
    assert result.exit_code == 0
    assert f"4 rows written to {path}\n" in result.stderr
    names = [*RESULT[:2], "label", "score", *RESULT[2:]]
    found = READ[kind](path)
    assert list(found[0]) == ["row_id", "stars", "text", "id", *names, "scores"]
    scores = [row.pop("scores") for row in found]
    likely = [json.loads(cell) if isinstance(cell, str) else cell for cell in scores]
    assert [each and [score["label"] for score in each] for each in likely] == [
        ["good", "bad"],
        None,
        *[["good", "bad"]] * 2,
    ]
    assert [sum(score["probability"] for score in each) for each in likely if each] == pytest.approx([1] * 3)
    assert found == expected(home, rows, names)
    assert [row["status"] for row in found] == ["ok", "error", "ok", "ok"]


@pytest.mark.parametrize("kind", sorted(READ))
def test_random_text_comes_back_as_it_was(home, submit, rows, tmp_path, kind):
    path = tmp_path / f"answers.{kind}"
    assert submit(rows, "--output", path, "--raw", "--max-tokens", "20").exit_code == 0
    found = [row["output"] for row in READ[kind](path)]
    assert found == [result.output for result in home.results("night")]
    assert len({text for text in found if text}) > 1


def test_every_answer_comes_back_to_its_own_row(home, submit, table, tmp_path, monkeypatch):
    """Each row has a word of its own, some of them the same one, and the model says what it read."""
    decode = byte_tokenizer().decode

    def echo(engine, batch, task):
        completions = [
            Completion(prompt.row_id, prompt.key, Status.OK, decode([*batch.prefix, *prompt.own_ids]))
            for prompt in batch.prompts
        ]
        random.Random(batch.batch_no).shuffle(completions)
        return Finished(tuple(partial(replace, each) for each in completions), BatchTiming())

    monkeypatch.setattr("pipeline.answering.run_bisecting", echo)
    home.variables |= {"PIPELINE_SHARD_ROWS": "37", "PIPELINE_BATCH_ROWS": "5"}
    numbers = random.Random(1).sample(range(1000), 200)
    words = [f"{number % 150:03}" for number in numbers]
    rows = table(id=[f"k{number}" for number in numbers], text=[None if word < "01" else word for word in words])
    asked = ("--key", "id", "--raw", "--prompt", "{text}", "--output", tmp_path / "answers.csv")
    assert submit(rows, *asked).exit_code == 0
    found = list(csv.DictReader((tmp_path / "answers.csv").open()))
    assert [(row["id"], row["output"] or None) for row in found] == [
        (key, text) for key, text in zip(*pq.read_table(rows).to_pydict().values(), strict=True)
    ]
    assert len({row["output"] for row in found}) > 100


def test_a_repeat_writes_the_file_again(submit, rows, tmp_path):
    path = tmp_path / "answers.csv"
    assert submit(rows, "--output", path).exit_code == 0
    first = path.read_bytes()
    path.unlink()
    assert submit(rows, "--output", path).exit_code == 0
    assert path.read_bytes() == first


def test_results_afterwards_are_the_same(home, submit, rows, tmp_path):
    path, later = tmp_path / "answers.jsonl", tmp_path / "later.jsonl"
    submit(rows, "--output", path)
    assert home.call("results", "night").stdout == path.read_text()
    assert home.call("results", "night", "--output", later).exit_code == 0
    assert later.read_text() == path.read_text()


def test_limit_is_the_first_rows_only(home, submit, rows, tmp_path):
    path = tmp_path / "answers.csv"
    assert submit(rows, "--limit", "2", "--key", "id", "--output", path).exit_code == 0
    assert [result.key for result in home.results("night")] == ["w", "x"]
    assert [row["id"] for row in csv.DictReader(path.open())] == ["w", "x"]


def test_a_limit_beyond_all_rows_is_all_rows(home, submit, rows):
    assert submit(rows, "--limit", 10**30).exit_code == 0
    assert len(home.results("night")) == 4
    assert len(home.call("results", "night", "--limit", 10**30).stdout.splitlines()) == 4


def test_json_is_one_object_and_nothing_else(home, submit, rows):
    result = submit(rows, "--json")
    told = json.loads(result.stdout)
    assert set(told) == KEYS
    figures = home.figures("night")
    assert (told["job"], told["state"], told["error"]) == ("night", "done", None)
    assert told["rows"] == {
        "total": 4, "ok": figures.ok, "truncated": figures.truncated, "error": 1, "cancelled": 0, "copied": 0
    }  # fmt: skip
    assert told["next"][0] == "pipeline results night"
    assert told == json.loads(home.call("status", "night", "--json").stdout)
    assert told == json.loads(home.call("resume", "night", "--json").stdout)


def test_labels_have_scores(home, submit, table):
    texts = ["a", "b", "some longer text", ""]
    assert submit(table(text=texts), "--choices", "yes, no").exit_code == 0
    for result in home.results("night"):
        assert (result.status, result.finish_reason, result.output_tokens) == ("ok", "choice", 0)
        assert result.label in ("yes", "no")
        assert result.output == result.label
        assert 0.5 <= result.score <= 1
        assert {score.label: score.probability for score in result.scores} == pytest.approx(
            {result.label: result.score, "no" if result.label == "yes" else "yes": 1 - result.score}
        )


def test_the_order_of_the_choices_changes_no_answer(home, submit, table):
    rows = table(text=["a", "b", "c"])
    for name, choices in (("one", "yes,no,maybe"), ("two", "maybe,yes,no")):
        assert submit(rows, "--name", name, "--choices", choices).exit_code == 0
    one, two = home.results("one"), home.results("two")
    assert [result.label for result in one] == [result.label for result in two]
    assert [result.score for result in one] == pytest.approx([result.score for result in two], abs=1e-5)


def test_an_answer_ends_by_itself_or_is_cut_short(home, submit, table):
    """In a chat the tiny model ends at once; a text it goes on with as long as it may."""
    rows = table(text=["a", "b"])
    assert submit(rows, "--name", "chat").exit_code == 0
    assert submit(rows, "--name", "text", "--raw", "--prompt", "{text}", "--max-tokens", "3").exit_code == 0
    for name, status, reason in (("chat", "ok", "stop"), ("text", "truncated", "length")):
        ends = [(result.status, result.finish_reason) for result in home.results(name)]
        assert ends == [(status, reason)] * 2
    assert [result.output_tokens for result in home.results("text")] == [3, 3]


def test_stop_cuts_the_text(home, submit, table):
    rows = table(text=["a", "b"])
    flags = ("--raw", "--prompt", "{text}", "--max-tokens", "30")
    submit(rows, "--name", "whole", *flags)
    whole = [result.output for result in home.results("whole")]
    stop = next(character for character in whole[0][2:] if character != "\ufffd")
    assert submit(rows, "--name", "cut", *flags, "--stop", stop, "--stop", "not to be found").exit_code == 0
    cut = home.results("cut")
    assert [result.output for result in cut] == [text.partition(stop)[0] for text in whole]
    assert (cut[0].status, cut[0].finish_reason) == ("ok", "stop")
    assert cut[0].output_tokens < home.results("whole")[0].output_tokens


def test_answers_do_not_depend_on_batches_and_shards(make_home, table, tiny_model):
    rows = table(text=[f"text number {place} " + "x" * (place * 7 % 30) for place in range(23)])
    flags = ("--model", tiny_model, "--prompt", "Say: {text}", "--raw", "--max-tokens", "8", "--name", "night")
    wide = make_home("wide")
    narrow = make_home("narrow", PIPELINE_SHARD_ROWS="5", PIPELINE_BATCH_ROWS="3", PIPELINE_BATCH_TOKENS="60")
    for home in (wide, narrow):
        assert home.call("submit", rows, *flags).exit_code == 0
    assert wide.answers("night") == narrow.answers("night")
    assert len(list(narrow.path.glob("jobs/*/shards/*.parquet"))) == 5
