import json

import pytest

from jobs.summary import print_summary
from pipeline.spec import JobSpec
from pipeline.store.queries import find_job


@pytest.fixture
def summary(desk, capsys):
    """What is printed of a job that is in the desk."""

    def printed(name, as_json=False):
        job = find_job(desk.database, name)
        spec = JobSpec.model_validate_json(job.spec_json)
        print_summary(desk.settings, desk.database, job, spec, as_json=as_json)
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return printed


def test_answers_errors_limit_and_figures_in_this_order(desk, summary):
    desk.done("night", max_tokens=1)
    answers, errors, limit, sentence, *_ = summary("night").split("\n\n")
    assert answers.splitlines()[0].split("\t") == ["id", "review", "stars", "STATUS", "ANSWER", "ERROR"]
    assert len(answers.splitlines()) == 7
    assert errors == "1 row ended with the error too_long. Row r5: The prompt has 900 tokens."
    assert limit == "An answer had up to 1 token; --max-tokens changes that."
    assert sentence == "night is done: 6 rows finished."


def test_of_many_samples_fewer_rows_are_shown(desk, summary):
    desk.done("night", temperature=1, n=5)
    assert len(summary("night").split("\n\n")[0].splitlines()) == 1 + 2 * 5


@pytest.mark.parametrize(
    ("asked", "columns"),
    [
        ({"choices": ["good", "bad"]}, "LABEL\tSCORE"),
        ({"score": "stars", "prompt": "{review}"}, "LOGPROB\tPERPLEXITY"),
        ({"embed": "last"}, "EMBEDDING"),
    ],
)
def test_what_is_not_written_has_no_limit(desk, summary, asked, columns):
    desk.done("night", **asked)
    shown = summary("night")
    assert columns in shown
    assert "--max-tokens" not in shown


def test_without_errors_there_is_no_word_of_them(desk, summary):
    desk.cutting("new")
    assert "ended with the error" not in summary("new")


def test_json_is_the_status_and_nothing_else(desk, summary, run):
    desk.done("night")
    told = json.loads(summary("night", as_json=True))
    assert told == json.loads(run("status", "night", "--json").stdout)
