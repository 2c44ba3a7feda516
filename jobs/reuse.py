"""Why more or fewer of a job's prompt tokens were reused than was predicted when it was submitted."""

from collections.abc import Iterator

from jobs.standing import Standing, State
from jobs.tables import counted, unit

#: Shares of all prompt tokens below which nobody needs to be told, and below which something explains nothing.
_WORTH_TELLING, _A_PART = 0.05, 0.01


def why_reuse_differs(found: Standing) -> str | None:
    """A few sentences; None where the two are close, or where the job has not ended."""
    achieved, predicted = found.reuse_share, found.job.predicted_reuse
    if found.state is not State.DONE or achieved is None or predicted is None:
        return None
    if abs(achieved - predicted) <= _WORTH_TELLING:
        return None
    planned = predicted if found.planned_reuse is None else found.planned_reuse
    if achieved > predicted:
        reasons = ["More was reused than predicted.", *_why_more(found, planned - predicted, achieved - planned)]
    else:
        reasons = ["Less was reused than predicted.", *_why_less(planned, predicted - planned, planned - achieved)]
    return " ".join(reasons)


def _why_more(found: Standing, by_rows: float, by_run: float) -> Iterator[str]:
    if found.figures.copied:
        copied = counted(found.figures.copied, unit(found.job))
        yield f"That counts all prompt tokens of {copied} copied from equal rows or earlier jobs."
    elif by_rows > _A_PART:
        yield "The rows share more than those that were looked at before."
    if by_run > _A_PART:
        yield "Some of what the prompts begin with was kept from before, and did not have to be computed at all."


def _why_less(planned: float, by_rows: float, by_run: float) -> Iterator[str]:
    if by_rows > _A_PART:
        yield (
            "The rows share less than those that were looked at before: "
            f"once all of them were encoded, {planned:.0%} were to be reused."
        )
    if by_run > _A_PART:
        yield (
            "Some of what rows share was computed more than once. Each process computes it anew, also after a restart, "
            "and so does a batch whose rows share it with those of another, where PIPELINE_PREFIX_BYTES cannot keep "
            "it; rows that were retried, or answered in halves of their batch, share less. Encoder models share "
            "nothing."
        )
