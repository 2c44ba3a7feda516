"""What share of a job's prompt tokens will be reused, foretold when it is submitted, and told beside what was."""

import json

import pytest

from pipeline import foretelling
from pipeline.ingest.inputs import resolve
from pipeline.ingest.sample import read_sample

PAGE = "A long text to read. " * 5
FLAGS = ("--raw", "--prompt", "{page} {text}", "--choices", "a,b")


@pytest.fixture
def rows(table):
    """A third of them has the same page, and shows it first."""
    pages = [PAGE if place < 80 else f"{place:<105}" for place in range(240)]
    return table(page=pages, text=[f"{place:<3}" for place in range(240)])


def reuse(home):
    return json.loads(home.call("status", "--json").stdout)["prompt_tokens"]


def test_it_is_kept_with_the_job_as_a_dry_run_tells_it(home, submit, rows, monkeypatch):
    monkeypatch.setattr(foretelling, "_SAMPLE_ROWS", 120)
    done = submit(rows, *FLAGS)
    assert "of all prompt tokens will be reused, by a look at 120 rows from all over the table.\n" in done.stderr
    share = reuse(home)["reuse_predicted"]
    assert share == pytest.approx(reuse(home)["reuse_achieved"], abs=0.05)
    assert f"About {share:.0%} of all prompt tokens will be reused" in done.stderr
    assert f"; predicted: {share:.0%})" in done.stdout
    assert "than predicted" not in done.stdout
    shown = submit(rows, *FLAGS, "--dry-run").stdout
    assert f"\n{share:.0%} of all prompt tokens reused" in shown


def test_what_the_rows_looked_at_do_not_show_is_explained(home, submit, rows, monkeypatch):
    head = read_sample(resolve([str(rows)]), ["page", "text"], 60, limit=60)
    monkeypatch.setattr(foretelling, "look", lambda spec, source: head)
    done = submit(rows, *FLAGS)
    told = reuse(home)
    assert told["reuse_predicted"] > told["reuse_achieved"] + 0.3
    why = "Less was reused than predicted. The rows share less than those that were looked at before: once all of them"
    assert f"\n{why} were encoded, {told['reuse_achieved']:.0%} were to be reused.\n" in done.stdout


def test_of_standard_input_nothing_is_foretold(home, submit):
    done = submit("-", stdin=b'{"text": "a"}\n{"text": "b"}\n')
    assert done.exit_code == 0
    assert reuse(home)["reuse_predicted"] is None
    assert "predicted" not in done.stdout


def test_where_no_row_looked_at_can_be_answered_nothing_is_foretold(home, submit, table):
    assert submit(table(text=[None, None])).exit_code == 5
    assert reuse(home)["reuse_predicted"] is None
