from dataclasses import replace

import pytest

from jobs.reuse import why_reuse_differs
from jobs.standing import Standing, State
from pipeline.store.records import Progress

DONE = Standing(None, Progress(total=2, computed_tokens=50, reused_tokens=50), State.DONE)


def predicted(planned_tokens: int, prompt_tokens: int = 100) -> Standing:
    return replace(DONE, figures=replace(DONE.figures, prompt_tokens=prompt_tokens, planned_tokens=planned_tokens))


@pytest.mark.parametrize(("planned", "why"), [(60, "More was reused"), (40, "Less was reused")])
def test_a_difference_of_more_than_five_points_is_explained(planned, why):
    assert why_reuse_differs(predicted(planned)).startswith(f"{why} than predicted: some of what ")


@pytest.mark.parametrize("found", [predicted(54), predicted(46), predicted(0, 0), DONE])
def test_a_small_one_or_one_that_nobody_predicted_is_not(found):
    assert why_reuse_differs(found) is None


def test_of_a_job_that_goes_on_nothing_is_said():
    assert why_reuse_differs(replace(predicted(90), state=State.RUNNING)) is None
