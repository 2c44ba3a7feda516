import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError, PipelineError, SpecError
from pipeline.ingest.condition import Condition

AT = datetime.datetime(2024, 1, 2, 12, tzinfo=datetime.UTC)
BATCH = pa.RecordBatch.from_pydict(
    {
        "n": [1, 2, 3, None],
        "f": [0.5, float("nan"), 3.0, None],
        "text": ["a", "it's", None, ""],
        "typed": ["4", " 05.0 ", "n/a", None],
        "yes": [True, False, None, True],
        "day": [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
        "at": pa.array([AT, AT + datetime.timedelta(1), None, AT], pa.timestamp("us", "UTC")),
        "price": [Decimal("1.50"), Decimal("2.00"), None, Decimal("9.99")],
        "deep": [{"k": "x"}, {"k": None}, None, {"k": "y"}],
        "two words": [1, 2, 3, 4],
        "is": [1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("n >= 2", [1, 2]),
        ("n = 2 or n == 3", [1, 2]),
        ("n != 2", [0, 2]),
        ("not n <> 2", [1]),
        ("n > 1.5 AND n<3", [1]),
        ("n > 99999999999999999999", []),
        ("f < 1", [0]),
        ("text = 'it''s'", [1]),
        ("text is null", [2]),
        ("text IS NOT NULL and not text = ''", [0, 1]),
        ("text like '%t%'", [1]),
        ("n between 2 and 3 and text not between 'x' and 'z'", [1]),
        (r"text like '%\t%'", []),
        (r"text like '%\%'", []),
        ("text not like 'a%'", [1, 3]),
        ("n in (1, 3)", [0, 2]),
        ("n not in (1)", [1, 2]),
        ("typed > 4", [1]),
        ("typed = '4'", [0]),
        ("typed in (4, -5, +5)", [0, 1]),
        ("yes", [0, 3]),
        ("not yes", [1]),
        ("yes = false", [1]),
        ("day >= '2024-01-03'", [2, 3]),
        ("at > '2024-01-02'", [0, 1, 3]),
        ("at > '2024-01-02 12:00:00Z'", [1]),
        ("price >= 1.5 and price < '9.99'", [0, 1]),
        ("deep.k = 'x'", [0]),
        ("deep.k is null", [1, 2]),
        ('"two words" = 3', [2]),
        ('"is" = 3', [2]),
        ("n = 1 or n = 2 and yes", [0]),
        ("(n = 1 or n = 2) and not yes", [1]),
        ("not (n = 1 or n = 2)", [2]),
        ("n = 9 or text is null", [2]),
    ],
)
def test_which_rows_fulfil_it(text: str, rows: list[int]) -> None:
    fulfilled = Condition.parse(text, BATCH.schema).fulfilled(BATCH).to_pylist()
    assert [row for row, is_so in enumerate(fulfilled) if is_so] == rows
    assert set(fulfilled) <= {True, False}


IDS = [*range(1234567890123456788, 1234567890123456793)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.int64(), pa.uint64()])
def test_long_numbers_are_told_apart_whatever_holds_them(kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"id": pa.array([*IDS, 9007199254740993, None]).cast(kind)})

    def found(text: str) -> list[int]:
        fulfilled = Condition.parse(text, batch.schema).fulfilled(batch).to_pylist()
        return [row for row, is_so in enumerate(fulfilled) if is_so]

    assert found("id = 1234567890123456789") == [1]
    assert found("id != 1234567890123456789") == [0, 2, 3, 4, 5]
    assert found("id > 1234567890123456790") == [3, 4]
    assert found("id in (1234567890123456792, 9007199254740993)") == [4, 5]
    assert found("id = 9007199254740992") == []
    assert found("id > 1.5") == found("id > 5") == found("id >= 2.0") == found("id > -1") == [0, 1, 2, 3, 4, 5]
    assert found("id < 18446744073709551615") == found(f"id < {'9' * 37}") == found("id < 1e300") == [0, 1, 2, 3, 4, 5]
    assert found("id > 18446744073709551616") == found("id < 1e-300") == found("id = 1.5") == []


def test_text_that_is_no_whole_number_is_compared_with_a_long_one_all_the_same() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [" +01234567890123456789 ", "1e30", "1.5", "n/a", "7" * 60, "", None]})
    more = Condition.parse("id >= 1234567890123456789", batch.schema).fulfilled(batch).to_pylist()
    assert more == [True, True, False, False, True, False, False]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(20, 0), pa.uint64()])
def test_a_long_number_may_be_compared_with_any_kind_of_number(kind: pa.DataType) -> None:
    large: Any = Decimal(2**63 + 5) if pa.types.is_decimal(kind) else 2**63 + 5
    column = pa.array([2.0**63 + 2.0**40, 3.0] if pa.types.is_floating(kind) else [large, 3], kind)
    batch = pa.RecordBatch.from_pydict({"f": column})
    for text in ("f > 5", "f > 5.5", "f > 1234567890123456789", "f >= 9223372036854775809", "not f < 16777217"):
        assert Condition.parse(text, batch.schema).fulfilled(batch).to_pylist() == [True, False], text


def test_a_value_that_cannot_be_compared_is_told() -> None:
    batch = pa.RecordBatch.from_pydict({"at": pa.array([2**62], pa.timestamp("s"))})
    condition = Condition(lambda batch: batch.column("at").cast(pa.timestamp("ns")))
    with pytest.raises(InputError, match="--where cannot be answered for some rows of the input: "):
        condition.fulfilled(batch)


def fault(text: str) -> str:
    with pytest.raises((SpecError, InputError)) as caught:
        Condition.parse(text, BATCH.schema)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n > > 4", "--where cannot be read at character 5 (>): there should be a number, a text in single quotes"),
        ("n >", "--where cannot be read at its end: there should be a number, a text in single quotes, true or false."),
        ("n", "--where cannot be read at its end: there should be one of = != < <= > >=, is, in, like or between."),
        ("n = 1 n = 2", "--where cannot be read at character 7 (n): there should be and, or, or its end."),
        ("(n = 1", "--where cannot be read at its end: there should be )."),
        ("n = 1; drop", "--where cannot be read at character 6 (;): there should be a column, a value or one of"),
        ("n = 'a", '--where cannot be read at character 5 (\'): there should be a quote that is closed.'),
        ("starz >", "--where cannot be read at its end: there should be a number, a text in single quotes"),
        ("", "--where cannot be read at its end: there should be a column's name"),
        ("4 < n", "--where cannot be read at character 1 (4): there should be a column's name"),
        ("n is 4", "--where cannot be read at character 6 (4): there should be null."),
        ("nn = 4 and tekst = 'a'", 'The input has no column "nn". Did you mean "n"?'),
        ("deep.j = 4", 'The column "deep" has no field "j". Its fields are: k.'),
        ("n = 'four'", '--where compares the column "n", which is int64, with \'four\', and that has no meaning.'),
        ("text = true", '--where compares the column "text", which is string, with True, and that has no meaning.'),
        (f"n > {'9' * 38}", "--where compares whole numbers of up to 37 digits, and 999999999... has more."),
        ("deep = 4", '--where compares the column "deep", which is struct<k: string>, with 4'),
        ("n like '4%'", '--where compares the column "n", which is int64, with \'4%\''),
        ("text like 4", "--where cannot be read at character 11 (4): there should be a text in single quotes"),
        ("day > 2024", '--where compares the column "day", which is date32[day], with 2024'),
        ("(" * 99 + "n = 1" + ")" * 99, "--where is nested more than 50 deep. Write it more simply."),
        ("not " * 99 + "n = 1", "--where is nested more than 50 deep."),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place(text: str, message: str) -> None:
    assert fault(text).startswith(message)


def test_a_long_condition_is_not_a_deep_one() -> None:
    text = " or ".join(f"n = {number}" for number in range(2000))
    assert Condition.parse(text, BATCH.schema).fulfilled(BATCH).to_pylist() == [True, True, True, False]


WORDS = st.sampled_from(
    [
        "n",
        "text",
        "deep.k",
        "and",
        "or",
        "not",
        "(",
        ")",
        "=",
        "<",
        "is",
        "null",
        "in",
        ",",
        "like",
        "'a'",
        "4",
        "true",
        "%",
    ]
)


@given(st.one_of(st.text(), st.lists(WORDS, max_size=12).map(" ".join)))
def test_no_text_is_met_with_a_traceback(text: str) -> None:
    try:
        found: Any = Condition.parse(text, BATCH.schema)
    except PipelineError:
        return
    assert len(found.fulfilled(BATCH)) == 4
