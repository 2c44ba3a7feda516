from dataclasses import replace

import pytest

from jobs.reuse import why_reuse_differs
from jobs.standing import Standing, State
from pipeline.store.records import JobRecord, JobState, Progress

JOB = JobRecord("j", "night", "{}", "f", "m", "i", JobState.DONE, 2, 1.0, 2.0, None)
DONE = Standing(JOB, Progress(total=2, computed_tokens=50, reused_tokens=50, prompt_tokens=100), State.DONE)

ALIKE = "than those that were looked at before"
ANEW = "was computed more than once"
KEPT = "was kept from before"


def predicted(share: float | None, planned: int = 50, **figures: int) -> Standing:
    """Half of the tokens were reused; `planned` percent were to be computed, once all rows were encoded."""
    progress = replace(DONE.figures, **{"planned_tokens": planned, **figures})
    return replace(DONE, job=replace(JOB, predicted_reuse=share), figures=progress)


@pytest.mark.parametrize(
    ("found", "told", "untold"),
    [
        (predicted(0.96), ["Less was", f"share less {ALIKE}: once all of them were encoded, 50% "], [ANEW]),
        (predicted(0.7, planned=30), ["Less was", ANEW], [ALIKE]),
        (predicted(0.96, planned=30), ["Less was", f"share less {ALIKE}", "70%", ANEW], []),
        (predicted(0.3), ["More was", f"share more {ALIKE}"], [KEPT]),
        (predicted(0.3, planned=70), ["More was", KEPT], [ALIKE]),
        (predicted(0.3, copied=1), ["More was", "all prompt tokens of 1 row copied from"], [ALIKE, KEPT]),
        (predicted(0.6, prompt_tokens=0), ["Less was reused than predicted."], [ALIKE]),
    ],
)
def test_a_difference_of_more_than_five_points_is_explained_by_the_figures(found, told, untold):
    why = why_reuse_differs(found)
    assert all(part in why for part in told), why
    assert not any(part in why for part in untold), why


@pytest.mark.parametrize("found", [predicted(0.54), predicted(0.46, planned=90), predicted(None, planned=90)])
def test_a_small_one_or_one_that_nobody_predicted_is_not(found):
    assert why_reuse_differs(found) is None


def test_of_a_job_that_goes_on_nothing_is_said():
    assert why_reuse_differs(replace(predicted(0.9), state=State.RUNNING)) is None
