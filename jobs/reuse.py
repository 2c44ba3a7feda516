"""Why more or fewer of a job's prompt tokens were reused than was predicted when they were encoded."""

from jobs.standing import Standing, State

#: Share of all prompt tokens below which nobody needs to be told.
_WORTH_TELLING = 0.05
_MORE = (
    "More was reused than predicted: some of what the prompts begin with was kept from before, and did not have to be "
    "computed at all."
)
_LESS = (
    "Less was reused than predicted: some of what rows share was computed more than once. Each process computes it "
    "anew, and so does a batch whose rows share it with those of another, where PIPELINE_PREFIX_BYTES cannot keep it; "
    "rows that were retried, or answered in halves of their batch, share less. Encoder models share nothing."
)


def why_reuse_differs(found: Standing) -> str | None:
    """A sentence; None where the two are close, or where the job has not ended."""
    achieved, predicted = found.reuse_share, found.predicted_reuse
    if found.state is not State.DONE or achieved is None or predicted is None:
        return None
    if achieved - predicted > _WORTH_TELLING:
        return _MORE
    return _LESS if predicted - achieved > _WORTH_TELLING else None
