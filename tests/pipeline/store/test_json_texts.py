import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, strategies

from pipeline.ingest.values import values_of
from pipeline.store.json_texts import json_lines, json_texts
from pipeline.store.plain import as_json

SCORES = [[{"label": 'a"', "probability": 0.5}, None], None, []]
VECTORS = pa.array([[1, 0.1], None, [3, math.nan]], pa.list_(pa.float32(), 2))
COLUMNS = {
    "text": pa.array(["a", 'q"\\\n\r\t\x00\x1f\x7f', None, "", "日本 🎉"]),
    "clean text": pa.array(["a", None, ""], pa.large_string()),
    "viewed text": pa.array(["a", None, '"'], pa.string_view()),
    "truths": pa.array([True, None, False]),
    "large integers": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "floats": pa.array([0.0, -0.0, 1e22, 1e16, math.nan, math.inf, -math.inf, None, 0.1, 123456789.0]),
    "single floats": pa.array([0.1, None, 3], pa.float32()),
    "half floats": pa.array([1.5, None, 2], pa.float32()).cast(pa.float16()),
    "nothing": pa.nulls(2),
    "no rows": pa.array([], pa.string()),
    "lists": pa.array([[1, None], None, [], [2]]),
    "part of lists": pa.array([["a", None], None, [], ["b"]]).slice(1, 2),
    "large lists": pa.array([["a", None], None], pa.large_list(pa.large_string())),
    "vectors": VECTORS,
    "part of vectors": VECTORS.slice(1, 1),
    "structs": pa.array([{"a": "é", '"': b"x"}, None, {"a": None, '"': None}]),
    "part of structs": pa.array([{"a": [{"b": ["x"]}]}, None, {"a": None}]).slice(1),
    "lists of structs": pa.array(SCORES),
    "maps": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff", None]),
    "times": pa.array([datetime.datetime(2026, 11, 29, 1), None]),
    "dates in lists": pa.array([[datetime.date(2026, 11, 29)], None]),
    "decimals": pa.array([Decimal("1.50"), None]),
    "words": pa.array(["a", "b", "a", None]).dictionary_encode(),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_they_are_those_of_each_value_by_itself(column):
    assert json_texts(column).to_pylist() == [as_json(value) for value in values_of(column)]


@given(strategies.lists(strategies.text() | strategies.none()))
def test_any_text_comes_back(texts):
    assert [json.loads(text) for text in json_texts(pa.array(texts, pa.string())).to_pylist()] == texts


@given(strategies.lists(strategies.floats(allow_nan=False, allow_infinity=False)))
def test_any_number_comes_back_and_as_a_float(numbers):
    back = [json.loads(text) for text in json_texts(pa.array(numbers, pa.float64())).to_pylist()]
    assert [repr(number) for number in back] == [repr(number) for number in numbers]


def test_a_line_is_an_object_in_which_what_is_json_already_stands_as_it_is():
    table = pa.table({'a"': ["x\n", None], "parsed": ['{"b": 1}', None], "n": [1.0, 2.5]})
    lines = b'{"a\\"": "x\\n", "parsed": {"b": 1}, "n": 1.0}\n{"a\\"": null, "parsed": null, "n": 2.5}\n'
    assert bytes(json_lines(table, ["parsed"])) == lines
    assert bytes(json_lines(table.slice(0, 0), ["parsed"])) == b""
