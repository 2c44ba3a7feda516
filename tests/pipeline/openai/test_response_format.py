import re
from typing import Any

import pytest

from pipeline.errors import RowError
from pipeline.openai.response_format import shape

SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}
ANY = {"json_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {}),
        ({"response_format": {"type": "text"}, "structured_outputs": {"json": None}}, {}),
        ({"response_format": {"type": "json_object"}}, ANY),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            },
            {"json_schema": SCHEMA},
        ),
        ({"guided_json": SCHEMA}, {"json_schema": SCHEMA}),
        ({"guided_json": "{}"}, {"json_schema": "{}"}),
        ({"guided_regex": "[0-9]"}, {"regex": "[0-9]"}),
        ({"guided_grammar": 'start: "a"'}, {"grammar": 'start: "a"'}),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, {"json_schema": SCHEMA}),
        ({"structured_outputs": {"regex": "a", "json_object": False}}, {"regex": "a"}),
        ({"structured_outputs": {"grammar": "g"}}, {"grammar": "g"}),
        ({"structured_outputs": {"json_object": True}}, ANY),
    ],
)
def test_the_shape_of_an_answer(body: dict[str, Any], fields: dict[str, Any]) -> None:
    assert shape(body) == fields
    assert body == {}


@pytest.mark.parametrize("name", ["guided_choice", "structured_outputs"])
def test_a_choice_is_one_of_its_texts_and_no_other(name: str) -> None:
    choices = ["a.b", "a", "x|y", " +\n"]
    found = shape({name: choices if name == "guided_choice" else {"choice": choices}})
    assert all(re.fullmatch(found["regex"], choice) for choice in choices)
    assert not any(re.fullmatch(found["regex"], other) for other in ("acb", "x", "y", " ", "a.b|a"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"response_format": {"type": "xml"}}, "response_format must be of the type text, json_object, or json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format must be of the type text, json_object, or "),
        ({"response_format": "json"}, "response_format must be an object."),
        ({"structured_outputs": "json"}, "structured_outputs must be an object."),
        ({"structured_outputs": {"structural_tag": "x"}}, "structural_tag is not supported. Leave it out."),
        ({"guided_choice": []}, "choice is not supported. Leave it out."),
        ({"guided_choice": ["a", 1]}, "choice is not supported. Leave it out."),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "An answer has one shape, and this asks "),
        ({"structured_outputs": {"json": SCHEMA, "regex": "a"}}, "An answer has one shape, and this asks for two. "),
    ],
)
def test_a_shape_that_cannot_be_is_told(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError, match=f"^{re.escape(message)}"):
        shape(body)
