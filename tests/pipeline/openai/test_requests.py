import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.openai.requests import CHAT, COMPLETIONS, Refusal, Request, read_request

USER = {"role": "user", "content": "Hi"}


def read(body: object, url: str = COMPLETIONS, **entry: Any) -> Request | Refusal:
    line = {"custom_id": "a", "method": "POST", "url": url, "body": body} | entry
    return read_request(json.dumps(line).encode(), 3, max_tokens=99)


def fields(body: dict[str, Any], url: str = COMPLETIONS) -> dict[str, Any]:
    found = read({"model": "any"} | ({"prompt": "p"} if url == COMPLETIONS else {"messages": [USER]}) | body, url)
    assert isinstance(found, Request), found
    return found.fields


def test_a_completion_with_the_services_defaults() -> None:
    assert read({"model": "m", "prompt": "Say", "user": "me"}) == Request(
        3, "a", COMPLETIONS, {"raw": True, "max_tokens": 16, "logprobs": None, "temperature": 1}, "Say"
    )


def test_a_chat() -> None:
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": parts}]
    assert read({"messages": messages, "max_completion_tokens": 5}, CHAT) == Request(
        3, "a", CHAT, {"system": "Be kind.", "max_tokens": 5, "logprobs": None, "temperature": 1}, "Hi"
    )
    assert fields({}, CHAT)["max_tokens"] == 99
    assert fields({"max_tokens": 7}, CHAT)["max_tokens"] == 7


def test_parameters_are_those_of_a_job() -> None:
    drawn = {"temperature": 0.5, "top_p": 0.9, "seed": 4, "n": 2, "stop": ["."], "presence_penalty": 0.5, "top_k": 3}
    assert drawn.items() <= fields(drawn).items()
    assert fields({"logprobs": 3})["logprobs"] == 3
    assert fields({"logprobs": True, "top_logprobs": 2}, CHAT)["logprobs"] == 2
    assert fields({"logprobs": True}, CHAT)["logprobs"] == 0
    assert fields({"logprobs": False}, CHAT)["logprobs"] is None


def test_what_changes_nothing_makes_no_other_job() -> None:
    greedy = {"temperature": 0}
    said = {
        "top_p": 0.5,
        "seed": 3,
        "n": 1,
        "stop": None,
        "frequency_penalty": 0,
        "stream": False,
        "top_k": -1,
        "user": "x",
    }
    assert fields(greedy | said) == fields(greedy)
    assert fields({"top_p": 1, "response_format": {"type": "text"}, "tools": []}, CHAT) == fields({}, CHAT)


@pytest.mark.parametrize(
    ("body", "url", "code"),
    [
        ({"prompt": ["a", "b"]}, COMPLETIONS, "invalid_prompt"),
        ({}, COMPLETIONS, "invalid_prompt"),
        ([], COMPLETIONS, "invalid_request"),
        ({"prompt": "a", "frequency_penalty": 1}, COMPLETIONS, "unsupported_parameter"),
        ({"prompt": "a", "wings": 2}, COMPLETIONS, "unsupported_parameter"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, CHAT, "unsupported_parameter"),
        ({"messages": [USER, {"role": "assistant", "content": "Ho"}, USER]}, CHAT, "unsupported_messages"),
        ({"messages": []}, CHAT, "unsupported_messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, CHAT, "unsupported_content"),
        ({"messages": [{"role": "user", "content": None}]}, CHAT, "unsupported_content"),
        ({"input": "a"}, "/v1/embeddings", "invalid_url"),
        ({"prompt": "half: \ud800"}, COMPLETIONS, "invalid_text"),
    ],
)
def test_what_cannot_be_answered_is_told(body: Any, url: str, code: str) -> None:
    found = read(body, url)
    assert isinstance(found, Refusal)
    assert (found.line, found.code) == (3, code)
    assert found.custom_id == (None if code == "invalid_text" else "a")


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"custom_id": 7}, "missing_custom_id"),
        ({"custom_id": ""}, "missing_custom_id"),
        ({"method": "GET"}, "invalid_method"),
        ({"url": None}, "invalid_url"),
    ],
)
def test_a_line_that_is_no_request(entry: dict[str, Any], code: str) -> None:
    found = read({"prompt": "a"}, **entry)
    assert isinstance(found, Refusal)
    assert found.code == code


@pytest.mark.parametrize("line", [b"{", b"\xff", b"7", b"null", b"[" * 100_000, b'{"custom_id": ' + b"9" * 5000 + b"}"])
def test_a_line_that_is_no_object(line: bytes) -> None:
    found = read_request(line, 1, max_tokens=9)
    assert isinstance(found, Refusal)
    assert found.code in ("invalid_json_line", "invalid_text", "invalid_request")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["prompt", "messages", "temperature", "stop", "tools", "logprobs", "role", "content", "n"])


@given(st.one_of(JSON, st.dictionaries(NAMES, JSON)), st.sampled_from([COMPLETIONS, CHAT]))
def test_no_line_is_met_with_a_traceback(body: Any, url: str) -> None:
    assert isinstance(read(body, url), Request | Refusal)
