import json
from typing import Any

import pytest

from pipeline.errors import RowError
from pipeline.openai.chats import template_fields, written

RESULT = {"role": "tool", "content": "1"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def called(arguments: Any) -> list[Any]:
    call = {"id": "1", "function": {"name": "f", "arguments": arguments}, "type": "function"}
    return [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [call]}, RESULT]


def test_messages_stay_as_they_are_but_for_the_arguments_of_calls() -> None:
    text = written(called('{"x": 1.0, "é": []}'))
    assert text == json.dumps(called({"x": 1.0, "é": []}), ensure_ascii=False)
    assert json.loads(written(called(""))) == called({})
    for kept in ({"x": 1}, "not JSON", 5, '["\\ud800"]', "[" * 200 + "]" * 200):
        assert json.loads(written(called(kept))) == called(kept)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (None, "messages must be a list of messages."),
        ("a", "messages must be a list of messages."),
        ([], "messages is empty. Give at least one message."),
        ([{"role": "user", "content": None}], "messages[0].content is null."),
        ([{"role": "user", "content": "a"}, {"role": "user"}], "messages[1].content is missing."),
        ([{"role": "user", "content": "a"}, 1], "messages[1] is a value of type int, where an object is wanted."),
        (
            [{"role": "usr", "content": "a"}],
            'messages[0].role is "usr". A role is one of system, developer, user, assis',
        ),
        ([{"content": "a", "tool_calls": 1}], "messages[0].role is null. A role is one of "),
        ([{"role": "user", "content": 5}], "messages[0].content is no text, and no list of parts of the type "),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content is no text, and no list of "),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
            "messages[1] is the assistant's, and that is what the model is to write.",
        ),
    ],
)
def test_what_is_wrong_with_a_message_is_told_by_its_name_in_the_body(messages: Any, why: str) -> None:
    with pytest.raises(RowError) as caught:
        written(messages)
    assert caught.value.error_type == "messages"
    assert str(caught.value).startswith(why)


def test_tools_and_variables_are_for_the_chat_template() -> None:
    body = {"tools": [TOOL], "chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low", "n": 1}
    variables = {"enable_thinking": False, "reasoning_effort": "low"}
    assert template_fields(body) == {"tools": [TOOL], "template_vars": variables}
    assert body == {"n": 1}
    assert template_fields({"tools": [], "tool_choice": "auto"}) == {}


def test_a_choice_of_no_tool_shows_none() -> None:
    assert template_fields({"tools": [TOOL], "tool_choice": "none"}) == {}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}, 1])
def test_no_answer_is_held_to_a_call(choice: Any) -> None:
    with pytest.raises(RowError, match=r"^tool_choice must be auto or none"):
        template_fields({"tools": [TOOL], "tool_choice": choice})
