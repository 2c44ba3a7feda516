"""Whole answers against the schema that they were written to."""

import json

import pytest

from pipeline.json_schema import AnswerSchema


def schema(**fields):
    return AnswerSchema(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "answer", "reason"),
    [
        ({"properties": {"a": {"type": "integer"}}}, '{"a": "b"}', "at $.a: 'b' is not of type 'integer'"),
        ({"oneOf": [{"type": "number"}, {"minimum": 1}]}, "2", "2 is valid under each of {'minimum': 1}, {.*}"),
        ({"not": {"const": 1.5}}, "1.50", ".*should not be valid.*"),
        ({"maxLength": 1}, '"' + "x" * 900 + '"', "'x{298,299}…"),
        ({}, "1e999", "its number 1e999 is larger than readers take"),
    ],
)
def test_an_answer_that_is_not_of_the_schema_is_refused_with_the_reason(fields, answer, reason):
    with pytest.raises(ValueError, match=f"^{reason.replace('$', '[$]').replace('.a', '[.]a')}$"):
        schema(**fields).parsed(answer)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"multipleOf": 0.1}, "0.3"),
        ({"const": 1.0}, "1"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 1, "exclusiveMaximum": False}, "1"),
        ({"pattern": "^\\p{L}$"}, '"a"'),
        ({"multipleOf": 0.1}, "1" + "0" * 40),
    ],
)
def test_an_answer_of_the_schema_is_json_spelled_alike(fields, answer):
    assert schema(**fields).parsed(answer) == answer


def test_what_is_no_schema_is_told_with_the_place():
    assert (
        schema(properties={"a": {"minLength": "b"}}).fault()
        == "at $.properties.a.minLength: 'b' is not of type 'integer'"
    )
    assert schema(type="string").fault() is None
