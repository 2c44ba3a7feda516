import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.columns import common_schema, conform


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


def test_order_may_differ_and_the_first_counts() -> None:
    one, two = schema(a=pa.int64(), b=pa.string()), schema(b=pa.string(), a=pa.int64())
    assert common_schema([("1", one), ("2", two)]) == one


@pytest.mark.parametrize(
    ("one", "two", "common"),
    [
        (pa.null(), pa.int64(), pa.int64()),
        (pa.bool_(), pa.null(), pa.bool_()),
        (pa.null(), pa.null(), pa.string()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.float64(), pa.int64(), pa.float64()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.list_(pa.null()), pa.list_(pa.string()), pa.list_(pa.string())),
    ],
)
def test_types_that_agree(one: pa.DataType, two: pa.DataType, common: pa.DataType) -> None:
    assert common_schema([("1", schema(a=one)), ("2", schema(a=two))]) == schema(a=common)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.binary(), pa.string()),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
    ],
)
def test_types_that_do_not_agree(one: pa.DataType, two: pa.DataType) -> None:
    with pytest.raises(InputError) as caught:
        common_schema([("x.csv", schema(a=one)), ("y.csv", schema(a=two))])
    assert str(caught.value) == (
        f'The column "a" is {one} in x.csv but {two} in y.csv. '
        "Several inputs are one table: write the column with the same type in both."
    )


@pytest.mark.parametrize(("lacking", "having"), [("x.csv", "y.csv"), ("y.csv", "x.csv")])
def test_columns_that_are_missing(lacking: str, having: str) -> None:
    schemas = {lacking: schema(a=pa.string()), having: schema(a=pa.string(), b=pa.string())}
    with pytest.raises(InputError) as caught:
        common_schema([(name, schemas[name]) for name in ("x.csv", "y.csv")])
    assert str(caught.value).startswith(f'{lacking} has no column "b", but {having} has. Several inputs are one table')


def test_an_input_without_columns_agrees_with_all() -> None:
    assert common_schema([("1", pa.schema([])), ("2", schema(a=pa.int64()))]) == schema(a=pa.int64())
    assert common_schema([("1", pa.schema([]))]) == pa.schema([])


def test_conform_reorders_and_casts() -> None:
    batch = pa.RecordBatch.from_pydict({"b": pa.array(["x"]).dictionary_encode(), "a": [1], "n": pa.nulls(1)})
    wanted = schema(a=pa.float64(), b=pa.string(), n=pa.string())
    same = conform(batch, wanted, "x.parquet")
    assert same.schema == wanted
    assert same.to_pylist() == [{"a": 1.0, "b": "x", "n": None}]


def test_a_whole_number_that_a_double_cannot_hold() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [2**53 + 1]})
    with pytest.raises(InputError, match=r'The column "a" of x\.parquet holds a value that is no double, the type it'):
        conform(batch, schema(a=pa.float64()), "x.parquet")
