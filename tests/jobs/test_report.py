"""The page of `pipeline report`, as a parser reads it, held to the database."""

import re
from pathlib import Path

import pytest
from sqlalchemy import func, select

from jobs.pages.page import report_page
from jobs.standing import standing
from pipeline.store.course import course
from pipeline.store.queries import STAGES, progress
from pipeline.store.schema import batches, results
from tests.jobs.html_page import Page


@pytest.fixture
def page(desk, run, tmp_path):
    """Of a job of the desk."""

    def made(name: str, *flags: str) -> Page:
        file = tmp_path / "page.html"
        done = run("report", name, "--output", str(file), *flags)
        assert done.exit_code == 0, done.output
        return Page(file.read_text())

    return made


def test_it_tells_where_it_is(desk, run, tmp_path):
    desk.done("night")
    done = run("report", "night", "--output", str(tmp_path / "page.html"))
    assert done.stdout == f"The report on night is in {tmp_path}/page.html\n"


def test_it_asks_for_nothing_but_itself(desk, page):
    desk.done("night")
    found = page("night")
    assert found.addresses() == {"data:,"}
    assert not {"script", "iframe", "object", "embed", "img", "form"} & {tag for tag, _ in found.elements}
    assert not re.search(r"https?:|@import|url\(|\bon\w+=", "".join(found.texts["style"]) + str(found.elements))


def test_the_numbers_are_those_of_the_database(desk, page):
    job = desk.done("night")
    tables, figures = page("night").tables, progress(desk.database, job.id)
    with desk.database.connect() as connection:
        closed = select(func.count(), func.sum(batches.c.n_rows)).where(batches.c.job_id == job.id)
        n_batches, n_rows = connection.execute(closed).one()
        answered = select(func.count()).where(results.c.job_id == job.id, results.c.status != "error")
        n_answered = connection.scalar(answered)
    assert _sum(tables["Rows a second"], 1) == n_batches == 3
    assert _sum(tables["Rows a second"], 2) == n_rows == 5
    computed, reused, output = (_sum(tables["Tokens a second"], column) for column in (1, 2, 3))
    assert (computed, reused, output) == (figures.computed_tokens, figures.reused_tokens, figures.output_tokens)
    assert [row[:2] for row in tables["Where the time went"]] == [
        [stage, f"{round(figures.seconds[stage], 3):,}"] for stage in STAGES
    ]
    assert tables["Prompt tokens reused"] == [["achieved", "3,000", "9,000"]]
    assert _sum(tables["Lengths of prompts"], 1) == n_answered == 5
    assert [row[0] for row in tables["Slowest batches"]] == ["0", "1", "2"]
    with desk.database.connect() as connection:
        (worker,) = connection.scalars(select(batches.c.worker).distinct())
    assert tables["Rows a second by worker"] == [[worker, "cpu", "3", "5", "6.0", "0.833"]]


def test_a_column_stands_where_its_batches_were_closed(desk, page):
    """After 2, 4 and 6 seconds, of which each of four intervals has 1.5."""
    desk.done("night")
    hints = [hint for hint in page("night").texts["title"] if re.fullmatch(r".* to .* rows/s", hint)]
    assert hints == [
        "1.5 s to 3.0 s: 1.33 rows/s",
        "3.0 s to 4.5 s: 1.33 rows/s",
        "4.5 s to 6.0 s: 0.667 rows/s",
    ]


def test_a_plot_can_be_heard(desk, page):
    desk.done("night")
    found = page("night")
    plots = [attributes for tag, attributes in found.elements if tag == "svg"]
    assert len(plots) == len(found.tables) >= 6
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in plots)
    assert ("html", {"lang": "en"}) in found.elements


def test_what_failed_is_told_by_key_and_its_text_only_where_asked_for(desk, page):
    desk.done("night")
    found = page("night")
    assert "r5 The prompt has 900 tokens." in found.texts["li"][-1]
    assert "Too long" not in str(found.texts)
    shown = page("night", "--with-text")
    assert shown.texts["dd"][-2:] == ["Too long", "5"]
    assert shown.texts["dt"][-2:] == ["review", "stars"]


def test_whatever_a_text_holds_is_shown_as_text(desk):
    bad = "</style><script>alert(1)</script>"
    job = desk.done(bad)
    desk.ledger.fail_note(job.id, bad)
    found, went = standing(desk.database, desk.settings, job.id), course(desk.database, job.id)
    read = Page(report_page(found, went, texts={5: {bad: bad}}))
    assert "script" not in {tag for tag, _ in read.elements}
    assert read.texts["h1"] == [bad]
    assert (read.texts["dt"][-1], read.texts["dd"][-1]) == (bad, bad)


def test_what_limited_it_is_a_sentence(desk, page):
    desk.done("night")
    told = "".join(page("night").texts["p"])
    assert "30% of the work was detokenize, 1.5 s: too little" in told, "1.5 of 5.0 seconds"


def test_a_job_without_an_answer_has_a_page_too(desk, page):
    desk.cutting("new")
    found = page("new")
    assert found.tables == {}
    assert "Nothing was answered yet" in "".join(found.texts["p"])


def test_an_input_is_not_written_over(desk, run):
    desk.done("night")
    source = desk.home / "reviews.jsonl"
    before = source.read_text()
    refused = run("report", "night", "--output", str(source))
    assert refused.exit_code == 2
    assert "is an input of night" in refused.stderr
    assert source.read_text() == before


def test_a_place_that_cannot_be_written_to_is_told(desk, run, tmp_path):
    desk.done("night")
    refused = run("report", "night", "--output", str(Path(tmp_path, "nowhere", "page.html")))
    assert refused.exit_code == 1
    assert "Traceback" not in refused.stderr
    assert "nowhere" in refused.stderr


def _sum(table: list[list[str]], column: int) -> int:
    return sum(int(row[column].replace(",", "")) for row in table)
