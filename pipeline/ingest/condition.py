"""What `--where` says of an input's columns: which rows of a batch fulfil it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.ingest import masks
from pipeline.ingest.expression import Literal, like_as, read
from pipeline.ingest.masks import Mask, bound
from pipeline.ingest.paths import ColumnPath, find_path

_COMPARISONS = {
    "=": pc.equal, "!=": pc.not_equal,
    "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_WILD = {"%": "(.|\\n)*", "_": "(.|\\n)"}


@dataclass(frozen=True, slots=True)
class Condition:
    """Bound to the columns of one schema."""

    mask: Mask  #: true, false or null for each row

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> "Condition":
        """Raises SpecError with the place of a fault, or InputError for a column that is not there."""
        return cls(read(text, _OfBatches(schema)))

    def fulfilled(self, batch: pa.RecordBatch) -> pa.Array:
        """True or false for each row. Raises InputError where a row's value cannot be compared."""
        try:
            return pc.fill_null(self.mask(batch), False)
        except pa.ArrowException as error:
            raise InputError(f"--where cannot be answered for some rows of the input: {error}.") from error


class _OfBatches:
    """Each part of a condition as a mask."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._nothing = pa.RecordBatch.from_pylist([], schema)

    def column(self, name: str) -> ColumnPath:
        return find_path(self._schema, name)

    def is_true(self, column: ColumnPath) -> Mask | None:
        return column.of if pa.types.is_boolean(column.type) else None

    def is_null(self, column: ColumnPath) -> Mask:
        return lambda batch: pc.is_null(column.of(batch))

    def compare(self, column: ColumnPath, sign: str, value: Literal) -> Mask:
        return bound(self._nothing, column, _COMPARISONS[sign], value)

    def like(self, column: ColumnPath, pattern: str) -> Mask:
        # With a backslash, match_like takes some patterns by other rules than their like.
        kernel, whole = (
            (pc.match_substring_regex, rf"\A{like_as(pattern, _WILD, re.escape)}\z")
            if "\\" in pattern
            else (pc.match_like, pattern)
        )
        return bound(self._nothing, column, lambda values, like: kernel(values, like.as_py()), whole)

    def opposite(self, part: Mask) -> Mask:
        return masks.opposite(part)

    def any_of(self, parts: Sequence[Mask]) -> Mask:
        return masks.any_of(parts)

    def every_of(self, parts: Sequence[Mask]) -> Mask:
        return masks.every_of(parts)
