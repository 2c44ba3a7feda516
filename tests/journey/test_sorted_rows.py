"""Rows that share a document from all over a table, sorted before they are answered, from the flags to the results."""

import csv
import json
import os
import signal
from multiprocessing import get_context

import pytest

from pipeline.store.ledger import Ledger
from pipeline.store.queries import find_job, list_pages, list_shards

PAGES = [f"{number}: what this page says is that it is page {number}. " * 5 for number in range(8)]
FLAGS = ("--raw", "--prompt", "{page} {text}", "--choices", "a,b", "--key", "id")


@pytest.fixture(autouse=True)
def settings(home):
    """Eight rows are a shard, so that no document meets itself in one."""
    home.variables |= {"PIPELINE_SHARD_ROWS": "8", "PIPELINE_PREFIX_BYTES": "100000", "PIPELINE_PREFIX_DISK_BYTES": "0"}


@pytest.fixture
def write(table):
    """Every eighth row has the same document; some rows are the same, and one has no document."""

    def write_rows(n_rows):
        pages = [PAGES[row % 8] for row in range(n_rows)]
        pages[9] = None
        texts = [f"{row % (n_rows * 3 // 4):x}" for row in range(n_rows)]
        return table(page=pages, text=texts, id=[f"k{row}" for row in range(n_rows)], beside=list(range(n_rows)))

    return write_rows


@pytest.fixture
def rows(write):
    return write(64)


def record(home, name):
    return find_job(home.database(), name)


def test_documents_are_computed_once_and_the_answers_are_those_of_the_input_s_order(home, submit, write, tmp_path):
    rows = write(400)
    done = submit(rows, *FLAGS, "--name", "sorted", "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "Rows are answered sorted by page first: then about 9" in done.stderr
    kept = submit(rows, *FLAGS, "--keep-order", "--name", "kept")
    assert "answered sorted" not in kept.stderr
    assert home.answers("sorted") == home.answers("kept")
    assert home.faults("sorted") == home.faults("kept") == []
    assert home.results("sorted")[9].error_type == "null"
    few, many = (home.figures(name).computed_tokens for name in ("sorted", "kept"))
    assert few < many / 8
    with (tmp_path / "out.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [(row["row_id"], row["id"], row["beside"]) for row in found] == [
        (f"{row}", f"k{row}", f"{row}") for row in range(400)
    ]


def test_like_rows_from_all_over_the_table_are_computed_once(home, submit, rows):
    assert submit(rows, *FLAGS).exit_code == 0
    computed = [row for row in home.results("night") if row.reused_tokens < row.prompt_tokens]
    assert len(computed) == 48


def test_a_dry_run_foretells_it(home, submit, write):
    home.variables["PIPELINE_SHARD_ROWS"] = "32"
    rows = write(256)
    shown = submit(rows, *FLAGS, "--dry-run").stdout
    assert "Rows are answered sorted by page first: " in shown
    told = int(shown.partition("% of all prompt tokens reused")[0].rpartition("\n")[2])
    assert submit(rows, *FLAGS).exit_code == 0
    reuse = json.loads(home.call("status", "--json").stdout)["prompt_tokens"]
    assert told / 100 == pytest.approx(reuse["reuse_achieved"], abs=0.05)
    assert reuse["reuse_achieved"] == pytest.approx(reuse["reuse_predicted"], abs=0.05)
    assert "sorted" not in submit(rows, *FLAGS, "--dry-run", "--keep-order").stdout


def test_which_rows_are_taken_and_where_a_fault_is_are_the_same(home, submit, rows, table, told):
    flags = (*FLAGS, "--where", "beside >= 8 and beside < 60", "--limit", "50")
    assert submit(rows, *flags).exit_code == 0
    assert [row.key for row in home.results("night")] == [f"k{row}" for row in range(8, 58)]
    twice = table("twice.parquet", page=PAGES * 10, text=["a"] * 80, id=[f"k{row % 79}" for row in range(80)])
    message = told(submit(twice, *FLAGS, "--name", "twice"), 1)
    assert 'holds "k0" twice: in row 1 of' in message
    assert "and in row 80 of" in message
    assert list(home.path.glob("jobs/*/shards")) == [home.path / "jobs" / record(home, "night").id / "shards"]


def test_each_row_draws_what_it_would_in_the_order_of_the_input(home, submit, rows):
    drawing = ("--raw", "--prompt", "{page} {text}", "--temperature", "1", "--max-tokens", "3")
    for name, flags in (("sorted", ()), ("kept", ("--keep-order",))):
        assert submit(rows, *drawing, *flags, "--name", name).exit_code == 0
    assert [record(home, name).sorts_rows for name in ("sorted", "kept")] == [True, False]
    assert home.answers("sorted") == home.answers("kept")


def test_errors_are_answered_again(home, submit, rows):
    assert submit(rows, *FLAGS).exit_code == 0
    assert home.call("retry", "night").exit_code == 0
    assert home.figures("night").error == 1
    assert home.faults("night") == []


@pytest.mark.parametrize(
    ("method", "number", "cancelled"), [("add_page", 3, None), ("add_shard", 0, None), ("add_shard", 3, 22)]
)
def test_killed_while_it_reads_or_sorts_it_goes_on_in_the_same_order(home, submit, rows, method, number, cancelled):
    process = get_context("fork").Process(target=killed_at, args=(method, number, submit, rows), daemon=True)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    job = record(home, "night")
    n_pages, n_shards = len(list_pages(home.database(), job.id)), len(list_shards(home.database(), job.id))
    assert (n_pages, n_shards) == ((number, 0) if method == "add_page" else (8, number))
    assert job.sorts_rows is True
    kept = {path.name for path in (home.path / "jobs" / job.id).iterdir()}
    assert kept <= {"shards", "cutting.lock", "cutting.process"}
    if cancelled is not None:
        assert home.call("cancel", "night").exit_code == 0
        assert (home.figures("night").cancelled, home.faults("night")) == (cancelled, [])
    assert submit(rows, *FLAGS, "--keep-order").exit_code == 0  # what was chosen stays
    assert home.faults("night") == []
    assert submit(rows, *FLAGS, "--name", "calm").exit_code == 0
    assert home.answers("night") == home.answers("calm")
    assert home.figures("night").computed_tokens == home.figures("calm").computed_tokens


def killed_at(method, number, submit, rows):
    """In a process of its own."""
    add = getattr(Ledger, method)

    def die_or_add(ledger, job_id, its_number, *rest):
        if its_number == number:
            os.kill(os.getpid(), signal.SIGKILL)
        add(ledger, job_id, its_number, *rest)

    setattr(Ledger, method, die_or_add)
    submit(rows, *FLAGS)


def test_several_questions_over_sorted_rows(home, rows, tiny_model, tmp_path):
    """A shard of eight rows holds sixteen answers."""
    home.variables["PIPELINE_SHARD_ROWS"] = "16"
    questions = {"mood": {"prompt": "Good?", "choices": ["a", "b"]}, "gist": {"prompt": "Gist:", "max_tokens": 2}}
    for name, keeps in (("sorted", False), ("kept", True)):
        fields = {"inputs": str(rows), "model": str(tiny_model), "name": name, "key": "id", "keep_order": keeps}
        fields |= {"prompt": "{page} {text}", "raw": True, "questions": questions}
        (tmp_path / f"{name}.json").write_text(json.dumps(fields))
        done = home.call("submit", "--job", tmp_path / f"{name}.json", "--output", tmp_path / f"{name}.csv")
        assert (done.exit_code, "Rows are answered sorted by page first" in done.stderr) == (0, not keeps), done.output
        assert home.faults(name) == []
    assert home.answers("sorted") == home.answers("kept")
    assert len(home.answers("sorted")) == 128
    few, many = (home.figures(name).computed_tokens for name in ("sorted", "kept"))
    assert few < many / 2
    with (tmp_path / "sorted.csv").open() as file:
        found = list(csv.DictReader(file))
    assert [(row["row_id"], row["id"]) for row in found] == [(f"{row}", f"k{row}") for row in range(64)]
    assert [row["mood_status"] for row in found].count("error") == 1
