"""What a condition is made of: which rows of a batch fulfil one comparison, several, or its opposite."""

import re
from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import SpecError
from pipeline.ingest.paths import ColumnPath

Mask = Callable[[pa.RecordBatch], pa.Array]  #: true, false or null for each row
Literal = str | int | float | bool

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")


def bound(nothing: pa.RecordBatch, path: ColumnPath, compare: Callable[..., pa.Array], value: Literal) -> Mask:
    """A comparison of a column with a value; tried on `nothing`, so that one without a meaning is refused now.

    Text is compared with a number as the number that it is. Raises SpecError.
    """
    of_text = pa.types.is_string(path.type) or pa.types.is_large_string(path.type)
    reads_numbers = of_text and not isinstance(value, str | bool)
    try:
        scalar = _as(value, path.type) if isinstance(value, str) else pa.scalar(value)

        def mask(batch: pa.RecordBatch) -> pa.Array:
            column = path.of(batch)
            return compare(_numbers(column) if reads_numbers else column, scalar)

        mask(nothing)
    except (pa.ArrowException, AttributeError) as error:
        raise SpecError(
            f'--where compares the column "{path.name}", which is {path.type}, with {value!r}, and that has no meaning.'
        ) from error
    return mask


def any_of(masks: Sequence[Mask]) -> Mask:
    return lambda batch: reduce(pc.or_kleene, (mask(batch) for mask in masks))


def every_of(masks: Sequence[Mask]) -> Mask:
    return lambda batch: reduce(pc.and_kleene, (mask(batch) for mask in masks))


def opposite(mask: Mask) -> Mask:
    return lambda batch: pc.invert(mask(batch))


def _as(text: str, kind: pa.DataType) -> pa.Scalar:
    """A time without a zone is one of UTC where the column's have zones."""
    scalar = pa.scalar(text)
    if pa.types.is_timestamp(kind) and kind.tz is not None and not _ZONE.search(text[10:]):
        scalar = scalar.cast(pa.timestamp(kind.unit))
    return scalar.cast(kind)


def _numbers(column: pa.Array) -> pa.Array:
    """What is no number is null: of a file without types, all columns are text."""
    numbers = pc.if_else(pc.match_substring_regex(column, _NUMBER), column, None)
    return pc.utf8_trim_whitespace(numbers).cast(pa.float64())
