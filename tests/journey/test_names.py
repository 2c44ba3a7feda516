"""A job's name is a promise: what is done stays, and the name never stands for another job's answers."""

import re
import shutil
import sqlite3

import pytest
from filelock import FileLock

from pipeline.inference import digest_cache
from tests.earlier import told_apart_as_before


@pytest.fixture
def rows(table):
    return table(text=["a", "b", "c"])


def recorded(home):
    """When each row of each job got its result."""
    with sqlite3.connect(home.path / "pipeline.db") as connection:
        times = connection.execute("SELECT job_id, row_id, created_at, attempt FROM results ORDER BY 1, 2").fetchall()
    connection.close()
    return times


def test_the_same_job_again_reports_and_computes_nothing(home, submit, rows):
    first = submit(rows)
    times = recorded(home)
    again = submit(rows)
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert again.stdout == first.stdout
    assert again.stderr == "night is the same job as before.\n"
    assert recorded(home) == times
    assert len(times) == 3


def test_resume_of_a_job_that_is_done_reports_it(home, submit, rows):
    first = submit(rows)
    times = recorded(home)
    assert home.call("resume", "night").stdout == first.stdout
    assert recorded(home) == times


@pytest.mark.parametrize(
    ("flags", "difference"),
    [
        (["--prompt", "Sing: {text}"], 'prompt: "Say: {text}" -> "Sing: {text}"'),
        (["--max-tokens", "5"], "max_tokens: 4 -> 5"),
        (["--stop", "."], 'stop: [] -> ["."]'),
        (["--choices", "good,bad"], 'choices: null -> ["good", "bad"]\n  max_tokens: 4 -> 256'),
        (["--temperature", "1", "--n", "2"], "temperature: 0.0 -> 1.0\n  n: 1 -> 2"),
        (["--logprobs", "0"], "logprobs: null -> 0"),
        (["--regex", "a+"], 'regex: null -> "a+"'),
        (["--on-too-long", "head"], 'on_too_long: "error" -> "head"'),
        (["--system", "Be kind."], 'system: null -> "Be kind."'),
        (["--raw"], "raw: false -> true"),
        (["--limit", "2"], "limit: null -> 2"),
        (["--key", "text"], 'key: null -> "text"'),
    ],
)
def test_another_job_under_the_same_name_is_refused(home, submit, rows, told, flags, difference):
    assert submit(rows).exit_code == 0
    times = recorded(home)
    assert told(submit(rows, *flags), 4) == (
        f"There is a job night already, and this one would give other results:\n  {difference}\n"
        "Choose another --name, or go on with the old one: pipeline resume night"
    )
    assert recorded(home) == times


def test_another_model_is_refused_by_its_path_and_by_its_content(submit, rows, told, tiny_model, tmp_path):
    one, two = (shutil.copytree(tiny_model, tmp_path / name) for name in ("one", "two"))
    assert submit(rows, "--model", one).exit_code == 0
    assert "\n  model: " in told(submit(rows, "--model", two), 4)
    config = one / "config.json"
    config.write_text(config.read_text() + "\n")
    assert "\n  model: its files have changed\n" in told(submit(rows, "--model", one), 4)


def test_a_large_model_is_read_once_and_that_is_told(submit, rows, tiny_model, monkeypatch):
    monkeypatch.setattr(digest_cache, "_LARGE_BYTES", 1)
    monkeypatch.setattr(digest_cache, "_LONG_BYTES", 1)
    monkeypatch.setattr(digest_cache, "_SETTLED_NS", -(10**12))
    assert f"Reading 0.0 GB in {tiny_model}, to know the model by all that it holds" in submit(rows).stderr
    assert submit(rows).stderr == "night is the same job as before.\n"


def test_a_job_of_an_earlier_version_goes_on_until_its_model_changes(home, submit, rows, told, tiny_model, full_disk):
    model = shutil.copytree(tiny_model, home.path.with_name("model"))
    with full_disk(behind=0):
        assert submit(rows, "--model", model).exit_code == 75
    told_apart_as_before(home.path, model)
    assert home.call("resume", "night").exit_code == 0
    assert submit(rows, "--model", model).stderr == "night is the same job as before.\n"
    assert len(home.results("night")) == 3
    assert home.faults("night") == []
    (model / "generation_config.json").write_text("{}")
    assert "\n  model: its files have changed\n" in told(submit(rows, "--model", model), 4)


def test_another_input_is_refused_by_its_path_and_by_its_content(submit, rows, table, told):
    assert submit(rows).exit_code == 0
    assert "\n  inputs: " in told(submit(table("other.parquet", text=["a", "b", "c"])), 4)
    table(text=["a", "b", "changed"])
    assert "\n  inputs: their files have changed\n" in told(submit(rows), 4)


def test_standard_input_cannot_be_known_to_be_the_same(submit, told):
    line = b'{"text": "a"}\n'
    assert submit("-", stdin=line).exit_code == 0
    assert "inputs: standard input cannot be compared with what was read before" in told(submit("-", stdin=line), 4)


def test_another_output_is_no_other_job(home, submit, rows, tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.jsonl"
    assert submit(rows, "--output", one).exit_code == 0
    times = recorded(home)
    one.unlink()
    again = submit(rows, "--output", two)
    assert again.exit_code == 0
    assert f"3 rows written to {two}" in again.stderr
    assert len(two.read_text().splitlines()) == 3
    assert not one.exists()
    assert recorded(home) == times
    two.unlink()
    assert f"3 rows written to {two}" in home.call("resume", "night").stderr
    assert (one.exists(), two.exists()) == (False, True)
    submit(rows)
    assert "written to" not in home.call("resume", "night").stderr


def test_a_cancelled_job_is_gone_on_with_under_its_name(home, submit, rows, full_disk):
    home.variables["PIPELINE_SHARD_ROWS"] = "1"
    with full_disk(behind=2):
        assert submit(rows).exit_code == 75
    cancelled = home.call("cancel", "night").stdout
    assert cancelled.startswith("night is cancelled: 0 rows have their results and keep them, 1 row is cancelled.\n")
    assert submit(rows).exit_code == 0
    assert len(home.results("night")) == 3
    assert "cancelled" not in [result.status for result in home.results("night")]
    assert home.faults("night") == []


def test_while_another_process_reads_the_input_the_name_is_taken(home, submit, rows, told, full_disk):
    with full_disk(behind=0):
        assert submit(rows).exit_code == 75
    (directory,) = home.path.glob("jobs/*")
    with FileLock(directory / "cutting.lock"):
        assert "another process. Let it finish" in told(submit(rows), 4)
        (directory / "cutting.process").write_text("77 on far")
        assert told(submit(rows), 4) == (
            "The input of night is being read by another process, 77 on far. Let it finish; if it stands still, end it "
            "there (kill -9 77), and go on with: pipeline resume night"
        )
    assert submit(rows).exit_code == 0


def test_without_a_name_each_time_is_a_new_job_and_last_is_the_newest(home, table, tiny_model):
    for text in ("a", "b"):
        rows = table(f"{text}.parquet", text=[text])
        done = home.call("submit", rows, "--model", tiny_model, "--prompt", "{text}", "--max-tokens", "2")
        assert done.exit_code == 0
    names = [line.split("\t")[0] for line in home.call("jobs").stdout.splitlines()[1:]]
    assert [re.fullmatch(r"job-\d{8}-(\d)", name).group(1) for name in names] == ["2", "1"]
    assert '"text": "b"' in home.call("results", "last").stdout
    assert home.call("status").stdout.startswith(f"{names[0]} is done: 1 row finished.")


def test_last_is_nobodys_name(home, submit, rows, told):
    assert told(submit(rows, "--name", "last"), 4) == ('"last" stands for the newest job. Give the job another name.')
    assert home.call("jobs", "--json").stdout == "[]\n"


def test_a_name_with_a_space_is_quoted_where_it_is_to_be_typed(submit, rows, told):
    result = submit(rows, "--name", "my night")
    assert "pipeline results 'my night'  shows the answers" in result.stdout
    assert told(submit(rows, "--name", "my night", "--raw"), 4).endswith("pipeline resume 'my night'")


def test_an_unknown_job_is_told_the_nearest(home, submit, rows, told):
    submit(rows)
    for command in ("resume", "retry", "results", "status", "cancel"):
        assert told(home.call(command, "nigth"), 3) == 'There is no job "nigth". Did you mean "night"?'


def test_retry_answers_the_error_rows_and_no_others(home, submit, table):
    assert submit(table(text=["a", None, "c"])).exit_code == 0
    before = recorded(home)
    again = home.call("retry", "night")
    assert again.exit_code == 0
    assert "Error rows of night to be answered again: 1" in again.stderr
    after = recorded(home)
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1] != before[1]
    assert [result.error_type for result in home.results("night")] == [None, "null", None]
    assert home.faults("night") == []


def test_an_input_is_never_written_over(home, submit, table, told):
    path = table("both.parquet", text=["a", "b"])
    before = path.read_bytes()
    for inputs in (path, path.parent, path.parent / "*.parquet"):
        assert "is an input of this job, which would be lost" in told(submit(inputs, "--output", path), 2)
    assert submit(path).exit_code == 0
    assert "is an input of night, which would be lost" in told(home.call("results", "night", "--output", path), 2)
    assert path.read_bytes() == before


def test_a_name_that_no_command_could_take_is_refused(submit, rows, told):
    assert "--name must not begin with -" in told(submit(rows, "--name=-x"), 2)
    assert "and have 64 characters at most" in told(submit(rows, "--name", "x" * 65), 2)


def test_retry_without_errors_does_nothing(home, submit, rows):
    assert submit(rows).exit_code == 0
    times = recorded(home)
    again = home.call("retry", "night")
    assert (again.exit_code, again.stdout) == (0, "")
    assert "Error rows of night to be answered again: 0" in again.stderr
    assert recorded(home) == times


def test_the_same_job_submitted_while_this_one_loaded_is_gone_on_with(home, submit, rows, monkeypatch):
    from jobs.session import Session

    load = Session.load
    nested = []

    def slow(session, spec, checkpoint):
        if not nested:
            nested.append(True)
            assert submit(rows).exit_code == 0
        return load(session, spec, checkpoint)

    monkeypatch.setattr(Session, "load", slow)
    late = submit(rows)
    assert late.exit_code == 0
    assert "night is the same job as before." in late.stderr
    assert len(recorded(home)) == 3
