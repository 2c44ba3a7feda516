"""Whether rows would share more if another column came first in their prompts, tried on some of a job's rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import SpecError
from pipeline.excerpt import encode_excerpt
from pipeline.means import Means
from pipeline.prompts.conversation import Shape
from pipeline.rows import Row
from pipeline.spec import JobSpec

#: Columns that are tried: each takes as long as to encode the rows once more.
_TRIED = 8


@dataclass(frozen=True, slots=True)
class Reordering:
    column: str
    reused: float  #: share of all prompt tokens, with this column before all others


def best_reordering(spec: JobSpec, means: Means, sample: Sequence[Row], batch_rows: int) -> Reordering | None:
    """None where no other column can come first. What questions add to a prompt is not moved, nor tried."""
    varying = means.shape.varying
    if varying is None or spec.questions:
        return None
    found = [
        Reordering(column, reused)
        for column in means.shape.columns[1 : 1 + _TRIED]
        if (reused := _reused(spec, means, sample, batch_rows, varying.led_by(column))) is not None
    ]
    return max(found, key=lambda reordering: reordering.reused, default=None)


def _reused(spec: JobSpec, means: Means, sample: Sequence[Row], batch_rows: int, shape: Shape | None) -> float | None:
    """None where no row could be answered so."""
    if shape is None:
        return None
    try:
        excerpt = encode_excerpt(spec, means.vocabulary, means.model.context, sample, shape)
        return excerpt.reused(means.costs, batch_rows)
    except SpecError:
        return None
