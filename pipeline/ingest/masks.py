"""What a condition is made of: which rows of a batch fulfil one comparison, several, or its opposite."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import SpecError
from pipeline.ingest.expression import Literal
from pipeline.ingest.paths import ColumnPath

Mask = Callable[[pa.RecordBatch], pa.Array]  #: true, false or null for each row
Compare = Callable[[pa.Array, pa.Scalar], pa.Array]

_WHOLE = pa.decimal128(38, 0)
_WHOLE_TEXT = r"^\s*[+-]?\d{1,38}\s*$"
#: From here on there are whole numbers that no float is.
_GAPS = 2**53
_BEYOND = 10**20  #: further than any integer of a column
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_ZONE = re.compile(r"(Z|[+-]\d\d(:?\d\d)?)$")


def bound(nothing: pa.RecordBatch, path: ColumnPath, compare: Compare, value: Literal) -> Mask:
    """A comparison of a column with a value; tried on `nothing`, so that one without a meaning is refused now.

    Text is compared with a number as the number that it is. Raises SpecError.
    """
    try:
        if isinstance(value, str | bool):
            scalar = _as(value, path.type) if isinstance(value, str) else pa.scalar(value)
            compared: Callable[[pa.Array], pa.Array] = partial(_compared, compare, scalar)
        else:
            compared = _with_number(path.type, compare, value)

        def mask(batch: pa.RecordBatch) -> pa.Array:
            return compared(path.of(batch))

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


def _compared(compare: Compare, scalar: pa.Scalar, column: pa.Array) -> pa.Array:
    return compare(column, scalar)


def _with_number(kind: pa.DataType, compare: Compare, value: int | float) -> Callable[[pa.Array], pa.Array]:
    """Exact where both are whole: Arrow by itself compares some as floats, and fails where those have gaps."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        near = pa.scalar(float(value))
        if isinstance(value, float) or abs(value) < _GAPS:
            return lambda column: compare(_numbers(column), near)
        whole = pa.scalar(Decimal(value), _WHOLE)
        return lambda column: pc.coalesce(compare(_wholes(column), whole), compare(_numbers(column), near))
    if pa.types.is_integer(kind) and float(value).is_integer():
        within = pa.scalar(Decimal(max(-_BEYOND, min(_BEYOND, int(value)))), _WHOLE)
        return lambda column: compare(column.cast(_WHOLE), within)
    if pa.types.is_integer(kind):
        # Unsafe only in name: an integer that is rounded stays above every number with a fraction.
        return lambda column: compare(column.cast(pa.float64(), safe=False), pa.scalar(value))
    if pa.types.is_floating(kind):
        return partial(_compared, compare, pa.scalar(float(value)))
    fits = isinstance(value, float) or abs(value) < 2**63
    return partial(_compared, compare, pa.scalar(value if fits else Decimal(value)))


def _numbers(column: pa.Array) -> pa.Array:
    """What is no number is null: of a file without types, all columns are text."""
    numbers = pc.if_else(pc.match_substring_regex(column, _NUMBER), column, None)
    return pc.utf8_trim_whitespace(numbers).cast(pa.float64())


def _wholes(column: pa.Array) -> pa.Array:
    wholes = pc.if_else(pc.match_substring_regex(column, _WHOLE_TEXT), column, None)
    return pc.utf8_trim_whitespace(wholes).cast(_WHOLE)
