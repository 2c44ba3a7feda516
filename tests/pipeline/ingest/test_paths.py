from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.paths import find_path, look_up, require_columns

CHAT = [{"content": "a"}, {"content": None}]
ROWS = [
    {
        "review": {"text": "x", "by": {"name": "n"}},
        "chat": CHAT,
        "a.b": "dotted",
        "a": {"b": "within"},
        "m": [("k", 1)],
    },
    {"review": None, "chat": [], "a.b": None, "a": None, "m": None},
    {"review": {"text": None, "by": None}, "chat": None, "a.b": "y", "a": {"b": "z"}, "m": [("j", 2)]},
]
SCHEMA = pa.schema(
    [
        ("review", pa.struct([("text", pa.string()), ("by", pa.struct([("name", pa.string())]))])),
        ("chat", pa.list_(pa.struct([("content", pa.string())]))),
        ("a.b", pa.string()),
        ("a", pa.struct([("b", pa.string())])),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("review.text", ["x", None, None]),
        ("review.by.name", ["n", None, None]),
        ("chat.0.content", ["a", None, None]),
        ("chat.1.content", [None, None, None]),
        ("chat.7.content", [None, None, None]),
        ("chat.999999.content", [None, None, None]),
        ("a.b", ["dotted", None, "y"]),
        ("m.k", [1, None, None]),
    ],
)
def test_what_a_path_means(name: str, values: list[Any]) -> None:
    path = find_path(SCHEMA, name)
    assert path.of(BATCH).to_pylist() == values
    assert path.of(BATCH).type == path.type
    assert path.of(BATCH.slice(1)).to_pylist() == values[1:]
    assert [look_up(row, name) for row in ROWS] == values


@pytest.mark.parametrize("kind", [pa.large_list(pa.string()), pa.list_view(pa.string()), pa.list_(pa.string(), 2)])
def test_every_kind_of_list_has_places(kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"l": pa.array([["a", "b"], None], kind)})
    assert find_path(batch.schema, "l.1").of(batch).to_pylist() == ["b", None]


def test_a_column_itself_is_not_touched() -> None:
    path = find_path(SCHEMA, "chat")
    assert (path.steps, path.of(BATCH).to_pylist()) == ((), [CHAT, [], None])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reviw", 'The input has no column "reviw". Did you mean "review"? Its columns are: review, chat, a.b, a, m.'),
        ("reviw.text", 'The input has no column "reviw.text". Did you mean "review"? Its columns are: '),
        ("review.txt", 'The column "review" has no field "txt". Did you mean "text"? Its fields are: text, by.'),
        ("review.", 'The column "review" has no field "". Its fields are: text, by.'),
        (
            "chat.content",
            'The column "chat" is a list: name a place in it, counted from 0, such as "chat.0", not "content".',
        ),
        (
            "chat.1000000000",
            'The column "chat" is a list, and 100000000... is too far in it. A place has up to 6 digits.',
        ),
        ("chat.99999999999999999999", 'The column "chat" is a list, and 999999999... is too far in it.'),
        ("chat.-1", 'The column "chat" is a list: '),
        ("review.text.0", 'The column "review.text" is string, which has no part "0".'),
    ],
)
def test_a_path_that_leads_nowhere(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        require_columns(SCHEMA, ["chat", name])
    assert str(caught.value).startswith(message)


def test_json_that_comes_as_text_is_to_be_taken_apart_where_it_comes_from() -> None:
    with pytest.raises(InputError) as caught:
        find_path(pa.schema([("j", pa.string())]), "j.x.0.y")
    assert str(caught.value) == (
        'The column "j" is string, which has no part "x". JSON of a database comes as text: where this is that, '
        "select the part as a column of its own, such as j->'x'->0->>'y' AS part."
    )


def test_an_input_without_columns() -> None:
    with pytest.raises(InputError, match="The input is empty: it has neither columns nor rows"):
        find_path(pa.schema([]), "text")


def test_what_is_not_there_is_none() -> None:
    assert look_up({"a": 1}, "b") is None
    assert look_up({"a": 1}, "a.b") is None


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (",", "commas")])
def test_columns_that_came_as_one_are_told_by_what_stands_between_them(mark: str, word: str) -> None:
    with pytest.raises(InputError, match=f"looks like several with {word} between them: in CSV the cells are parted"):
        find_path(pa.schema([(f"id{mark}review", pa.string())]), "review")
