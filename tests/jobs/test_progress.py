import io
from dataclasses import replace

import pytest
from rich.console import Console

from jobs.progress import Meter, reuse, shown, waiting
from jobs.view import Seen
from pipeline.store.records import Progress

START = Progress(total=100, ok=10, computed_tokens=1000, reused_tokens=0, output_tokens=50)


def no_errors(count):
    return {}


def figures(finished, **tokens):
    return replace(START, ok=finished, **tokens)


def meter(*moments, start=START):
    return Meter(start, iter(moments).__next__)


def test_rates_are_of_this_run_only():
    now = figures(30, computed_tokens=1500, reused_tokens=500, output_tokens=150)
    assert meter(5.0, 15.0).words(now) == (
        "2.0 rows/s, 110 tokens/s, 25% of prompt tokens reused, 35.0 s left"
    )  # fmt: skip


def test_a_long_rest_is_in_minutes_and_hours():
    assert meter(0.0, 60.0).words(figures(20)).endswith(", 8:00 left")
    assert meter(0.0, 3600.0).words(figures(20)).endswith(", 8:00:00 left")


@pytest.mark.parametrize(
    "now", [figures(10), figures(100), replace(figures(20), total=None)], ids=["no row yet", "all rows", "not cut"]
)
def test_where_the_rest_is_not_known_none_is_told(now):
    assert "left" not in meter(0.0, 10.0).words(now)


def test_no_time_has_passed():
    assert meter(1.0, 1.0).words(START) == "0.0 rows/s, 0 tokens/s, 0% of prompt tokens reused"


def test_errors_count_as_rows():
    assert meter(0.0, 1.0).words(replace(START, error=5, truncated=5)).startswith("10.0 rows/s, ")


def test_reuse():
    assert reuse(Progress(total=1)) == 0.0
    assert reuse(Progress(total=1, computed_tokens=30, reused_tokens=90)) == 0.75


@pytest.fixture
def log():
    return Console(file=io.StringIO(), width=20)


def test_in_a_log_the_end_is_one_line(log):
    states = iter([figures(10), figures(50), figures(100)])
    with shown(log, lambda: Seen("night", next(states)), no_errors) as on_change:
        on_change()
        on_change()
    (line,) = log.file.getvalue().splitlines()
    assert line.startswith("100/100 rows, ")


def test_in_a_log_waiting_is_a_line_before(log):
    with waiting(log, "Loading ..."):
        assert log.file.getvalue() == "Loading ...\n"


def test_on_a_terminal_the_view_shows_the_newest_figures():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    states = iter([figures(10), figures(10), figures(100)])
    with shown(console, lambda: Seen("night", next(states)), no_errors) as on_change:
        on_change()
    assert "100/100 rows" in console.file.getvalue()
