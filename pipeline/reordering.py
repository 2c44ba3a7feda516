"""Whether rows would share more if another column came first in their prompts, tried on some of a job's rows."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pipeline.errors import SpecError
from pipeline.excerpt import encode_excerpt
from pipeline.means import Means
from pipeline.order import Order
from pipeline.prompts.conversation import Shape
from pipeline.rows import Row
from pipeline.spec import JobSpec

#: Columns that are tried: each takes as long as to encode the rows once more.
_TRIED = 8


@dataclass(frozen=True, slots=True)
class Reordering:
    column: str
    reused: float  #: share of all prompt tokens, with this column before all others


def best_reordering(
    spec: JobSpec, means: Means, sample: Sequence[Row], batch_rows: int, order_of: Callable[[Shape], Order | None]
) -> Reordering | None:
    """None where no other column can come first. What questions add to a prompt is not moved, nor tried.

    `order_of` tells how rows of such prompts would be sorted, where that pays.
    """
    varying = means.shape.varying
    if varying is None or spec.questions:
        return None
    found = []
    for column in means.shape.columns[1 : 1 + _TRIED]:
        if (shape := varying.led_by(column)) is None:
            continue
        with suppress(SpecError):  # no row could be answered so
            excerpt = encode_excerpt(spec, means.vocabulary, means.model.context, sample, shape)
            order = order_of(shape)
            reused = max(excerpt.reused(means.costs, batch_rows), order.sorted if order else 0.0)
            found.append(Reordering(column, reused))
    return max(found, key=lambda reordering: reordering.reused, default=None)
