"""The figures of a whole job, each in a word and a number."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime

from jobs.pages.plot import number
from jobs.standing import Standing
from jobs.tables import duration


def facts(found: Standing) -> Iterator[tuple[str, str]]:
    """In the order in which a person asks for them."""
    figures = found.figures
    yield "rows", "still being read" if figures.total is None else f"{figures.total:,}"
    for name in ("ok", "truncated", "error", "cancelled", "copied"):
        count: int = getattr(figures, name)
        if count:
            yield name, f"{count:,}"
    if found.rows_per_s is not None and found.active_s is not None:
        yield "rows/s", number(found.rows_per_s)
        yield "first batch to last", duration(found.active_s)
    for name, tokens in (
        ("prompt tokens", figures.computed_tokens + figures.reused_tokens),
        ("answer tokens", figures.output_tokens),
    ):
        if tokens:
            yield name, f"{tokens:,}"
    if found.reuse_share is not None:
        yield "prompt tokens reused", f"{found.reuse_share:.1%}"
    if found.job.predicted_reuse is not None:
        yield "reuse predicted", f"{found.job.predicted_reuse:.1%}"
    yield "model", str(json.loads(found.job.spec_json)["model"])
    yield "submitted, in UTC", f"{datetime.fromtimestamp(found.job.submitted_at, UTC):%Y-%m-%d %H:%M}"
