import datetime
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.values import rows_of, values_of

#: In microseconds.
FAR = 10_000_000 * 86_400 * 1_000_000
MOMENT = datetime.datetime(1970, 1, 1, microsecond=1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (lambda leaf: leaf, MOMENT),
        (pa.list_, [MOMENT]),
        (pa.large_list, [MOMENT]),
        (lambda leaf: pa.list_(leaf, 1), [MOMENT]),
        (lambda leaf: pa.struct([("a", pa.list_(leaf))]), {"a": [MOMENT]}),
        (lambda leaf: pa.map_(pa.string(), leaf), [("a", MOMENT)]),
    ],
    ids=["itself", "list", "large list", "fixed list", "struct", "map"],
)
def test_times_are_cut_to_microseconds_and_where_python_has_no_date_they_are_text(kind: Any, value: Any) -> None:
    fine = pa.array([value, None], kind(pa.timestamp("us"))).cast(kind(pa.timestamp("ns")))
    assert values_of(fine) == values_of(pa.chunked_array([fine])) == [value, None]
    numbers = pa.array([value], kind(pa.timestamp("us"))).cast(kind(pa.int64())).to_pylist()
    (told,) = values_of(pa.array([_with(numbers[0], FAR)], kind(pa.timestamp("us"))))
    assert told == _with(numbers[0], "29349-01-26 00:00:00.000000")


def _with(value: Any, leaf: Any) -> Any:
    """The same lists and objects around another leaf."""
    if isinstance(value, dict):
        return {name: _with(part, leaf) for name, part in value.items()}
    if isinstance(value, list):
        return [_with(part, leaf) for part in value]
    return (value[0], leaf) if isinstance(value, tuple) else leaf


def test_a_zone_that_nobody_knows_is_told() -> None:
    with pytest.raises(InputError, match=r"^A column of the input holds times that cannot be read: .*Not/AZone"):
        values_of(pa.array([1], pa.timestamp("us", "Not/AZone")))


def test_rows_go_by_the_names_of_the_columns() -> None:
    assert rows_of(pa.table({"a": [1, None], "b": ["x", "y"]})) == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
    assert rows_of(pa.table({"a": pa.array([], pa.int64())})) == []
