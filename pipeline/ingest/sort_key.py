"""What rows are sorted by: the texts of some columns, one behind the other, so that like rows become neighbours."""

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.ingest.paths import ColumnPath
from pipeline.ingest.values import values_of

KeyOf = Callable[[pa.RecordBatch], pa.Array]  #: bytes for each row

_BYTES = pa.large_binary()
_BETWEEN = pa.scalar(b"\0", _BYTES)


def key_of(paths: Sequence[ColumnPath]) -> KeyOf:
    """The first of them counts first. A null is like an empty text: what matters is that equal rows have equal keys."""

    def of(batch: pa.RecordBatch) -> pa.Array:
        texts = [_text(path.of(batch)) for path in paths]
        return pc.binary_join_element_wise(*texts, _BETWEEN, null_handling="replace", null_replacement=b"")

    return of


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        return column.cast(_BYTES)
    try:
        return column.cast(pa.large_string()).cast(_BYTES)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, structs and the like
        return pa.array([None if value is None else repr(value).encode() for value in values_of(column)], _BYTES)
