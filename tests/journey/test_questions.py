"""`questions:` from the job file to the results, each question's answers held to those of a job of its own."""

import json
import re

import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.store.ledger import Ledger
from workers.local import LocalRunner

TEXTS = ["a" * 120, "Lovely, and it lasts.", None, "x" * 600, "It broke." * 9, "Lovely, and it lasts."]
TITLES = ["one", "two", "three", "four", None, "six"]
QUESTIONS = {
    "mood": {"prompt": "Good or bad?", "choices": ["good", "bad"]},
    "gist": {"prompt": "In short:", "max_tokens": 4},
    "tale": {"prompt": "And then", "max_tokens": 3, "temperature": 1.0, "seed": 5, "n": 2},
    "fit": {"prompt": "Title:", "score": "title"},
}
N = len(QUESTIONS)


@pytest.fixture
def write_job(tmp_path, table, tiny_model):
    rows = {"inputs": str(table(text=TEXTS, title=TITLES)), "model": str(tiny_model), "name": "night"}

    def write(questions=QUESTIONS, **fields):
        usual = rows | {"prompt": "Review: {text}\n", "raw": True, "questions": questions}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(usual | fields, sort_keys=False))
        return tmp_path / "job.yaml"

    return write


def test_answers_are_those_of_a_job_for_each_question(home, write_job, tmp_path):
    done = home.call("submit", "--job", write_job(), "--output", tmp_path / "out.parquet")
    assert done.exit_code == 0, done.stderr
    assert home.faults("night") == []
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [(row["row_id"], row["text"]) for row in rows] == list(enumerate(TEXTS))
    together = home.results("night")
    for place, (name, question) in enumerate(QUESTIONS.items()):
        job = write_job((), **question | {"prompt": "Review: {text}\n" + question["prompt"], "name": name})
        assert home.call("submit", "--job", job).exit_code == 0
        for row, alone in zip(rows, home.results(name), strict=True):
            found = together[alone.row_id * N + place]
            asked = (found.key, found.status, found.output, found.label, found.samples, found.error)
            assert asked == (alone.key, alone.status, alone.output, alone.label, alone.samples, alone.error)
            assert (found.logprob or 0.0) == pytest.approx(alone.logprob or 0.0, rel=1e-4)
            assert (row[f"{name}_status"], row[f"{name}_error"]) == (alone.status, alone.error)
            assert row[name] == {"mood": found.label, "fit": found.logprob}.get(name, found.output)
    assert [row["fit_status"] for row in rows] == ["ok", "ok", "error", "error", "error", "ok"]
    assert [row["mood_status"] for row in rows] == ["ok", "ok", "error", "error", "ok", "ok"]


def test_the_row_is_computed_once_for_all_questions(home, write_job):
    questions = {name: QUESTIONS[name] for name in ("mood", "gist", "fit")}
    assert home.call("submit", "--job", write_job(questions, limit=1)).exit_code == 0
    told = home.figures("night")
    row, asked = len("Review: \n") + 120, sum(len(question["prompt"]) for question in questions.values())
    assert told.computed_tokens == row + asked
    assert told.computed_tokens + told.reused_tokens == 3 * row + asked
    assert told.planned_tokens == told.computed_tokens


def test_rows_that_are_the_same_in_another_shard_are_computed_once_for_each_question_that_draws_nothing(
    home, write_job, table
):
    questions = {name: QUESTIONS[name] for name in ("mood", "gist", "tale")}
    home.variables["PIPELINE_SHARD_ROWS"] = "6"  # two rows with three questions each
    texts = ["a day", "a night", "a night", "a cup", "a day", "a day"]
    job = write_job(questions, inputs=str(table("same.parquet", text=texts)), keep_order=True)
    assert home.call("submit", "--job", job).exit_code == 0
    found = home.results("night")
    computed = [row.row_id for row in found if row.reused_tokens < row.prompt_tokens]
    assert [row_id for row_id in computed if row_id % 3 < 2] == [0, 1, 3, 4, 9, 10]
    assert {row.row_id % 3 for row in found if row.row_id not in computed} == {0, 1}
    for one, other in ((0, 12), (1, 13), (3, 6), (4, 7), (0, 15), (1, 16)):
        assert (found[one].output, found[one].label) == (found[other].output, found[other].label)
    assert home.faults("night") == []


def test_rows_are_shown_by_how_one_of_their_answers_ended_and_errors_are_retried(home, write_job):
    shown = home.call("submit", "--job", write_job()).stdout
    assert "night is done: 24 answers to 6 rows finished." in shown
    assert re.search(r"^rows +6 with 4 answers each: .*, 9 error$", shown, re.MULTILINE)
    lines = home.call("results", "night", "--status", "error", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["row_id"] for line in lines] == [2, 3, 4]
    table = home.call("results", "night", "--status", "error", "--format", "table").stdout.splitlines()
    assert table[0].split("\t") == ["ROW", "text", "MOOD", "GIST", "TALE", "FIT", "ERROR"]
    assert table[3].split("\t")[-2:] == [
        "error",
        'fit: The column "title" is null in this row, so there is nothing to score.',
    ]
    assert table[1].split("\t")[-1].startswith('mood, gist, tale, fit: The column "text" is null in this row, so its')
    again = home.call("retry", "night")
    assert "Errors of night to be answered again: 9" in again.stderr
    assert home.faults("night") == []


def test_a_column_that_is_called_as_a_question_is_shown_beside_it(home, write_job, table):
    rows = table(MOOD=["low"])
    home.call("submit", "--job", write_job({"mood": {"max_tokens": 1}}, inputs=str(rows), prompt="{MOOD}"))
    head, line = home.call("results", "night", "--format", "table").stdout.splitlines()
    assert head.split("\t") == ["ROW", "MOOD", "MOOD"]
    assert line.split("\t")[:2] == ["0", "low"]


def test_status_counts_answers_and_rows(home, write_job):
    home.call("submit", "--job", write_job())
    found = json.loads(home.call("status", "night", "--json").stdout)
    assert (found["questions"], found["rows"]) == (list(QUESTIONS), {"total": 6})
    assert (found["answers"]["total"], found["answers"]["error"]) == (24, 9)


def test_the_same_job_goes_on_and_another_question_is_refused(home, write_job):
    assert home.call("submit", "--job", write_job()).exit_code == 0
    assert "night is the same job as before." in home.call("submit", "--job", write_job()).stderr
    refused = home.call("submit", "--job", write_job(QUESTIONS | {"mood": {"choices": ["a", "b"]}}))
    assert refused.exit_code == 4
    assert 'questions.mood.choices: ["good", "bad"] -> ["a", "b"]' in refused.stderr


def test_a_dry_run_shows_a_prompt_for_each_question_and_the_reuse(home, write_job):
    shown = home.call("submit", "--job", write_job(), "--limit", "3", "--dry-run").stdout
    for name, question in QUESTIONS.items():
        assert f"The first {name} prompt" in shown
        assert f"Review: {'a' * 120}\n{question['prompt']}\n\n" in shown
    assert 'Row 2 (mood, gist, tale, fit) will be an error (null): The column "text" is null in this row' in shown
    assert "Estimate for the input: 3 rows with 4 answers each," in shown
    assert "up to 10 tokens to a row" in shown
    assert "fit: The text of title will be scored behind the prompt: 8 tokens in these rows." in shown


def test_a_flag_for_all_rows_beside_questions_is_an_error(home, write_job, told):
    result = home.call("submit", "--job", write_job(), "--choices", "a,b")
    assert told(result, 2).startswith("questions: --choices is for the whole job, and each question has its own; leave")
    missing = home.call("submit", "--job", write_job({"a": {"prompt": "{tittle}?"}}))
    assert 'Did you mean "title"?' in told(missing, 1)


def test_answers_are_copied_from_a_job_that_asked_one_of_the_questions(home, write_job):
    gist = QUESTIONS["gist"]
    assert (
        home.call(
            "submit", "--job", write_job((), **gist | {"prompt": "Review: {text}\nIn short:", "name": "gist"})
        ).exit_code
        == 0
    )
    questions = {name: QUESTIONS[name] for name in ("mood", "gist")}
    assert home.call("submit", "--job", write_job(questions), "--reuse-results").exit_code == 0
    assert home.figures("night").copied == 4
    assert {found.row_id % 2 for found in home.results("night") if found.copied_from} == {1}


@pytest.fixture
def home_of_small_parts(make_home):
    """Two rows in a shard, one in a batch."""
    return make_home(PIPELINE_SHARD_ROWS="9", PIPELINE_BATCH_ROWS="5")


def test_a_cancelled_job_goes_on(home_of_small_parts, write_job, monkeypatch):
    """Stopped once the first batch is answered."""
    home, answer = home_of_small_parts, LocalRunner._answer

    def stop_behind(runner, claim):
        answer(runner, claim)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalRunner, "_answer", stop_behind)
        assert home.call("submit", "--job", write_job()).exit_code == 130
    assert "night was interrupted: 4 of 24 answers to 6 rows finished" in home.call("status", "night").stdout
    assert "4 answers stay, 20 answers are cancelled." in home.call("cancel", "night").stdout
    assert home.faults("night") == []
    assert len(home.call("results", "night", "--format", "jsonl").stdout.splitlines()) == 6
    assert home.call("resume", "night").exit_code == 0
    assert home.faults("night") == []
    assert {found.status for found in home.results("night")} <= {"ok", "truncated", "error"}


def test_an_input_that_was_read_in_part_is_read_on(home_of_small_parts, write_job, monkeypatch):
    home, add = home_of_small_parts, Ledger.add_shard

    def stop_at_the_second(ledger, job_id, shard_no, *more):
        if shard_no == 1:
            raise KeyboardInterrupt
        add(ledger, job_id, shard_no, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "add_shard", stop_at_the_second)
        assert home.call("submit", "--job", write_job()).exit_code == 130
    assert home.call("resume", "night").exit_code == 0
    assert home.faults("night") == []
    lines = [json.loads(line) for line in home.call("results", "night", "--format", "jsonl").stdout.splitlines()]
    assert [(line["row_id"], line["text"]) for line in lines] == list(enumerate(TEXTS))
