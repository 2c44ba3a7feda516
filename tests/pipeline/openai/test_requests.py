import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import SpecError
from pipeline.openai.endpoints import CHAT, COMPLETIONS, EMBEDDINGS, Usual
from pipeline.openai.requests import Refusal, Request, read_request
from pipeline.spec import build_spec

USUAL = Usual(99, "last")


def read(**entry: Any) -> Request | Refusal:
    line = {"custom_id": "a", "method": "POST", "url": COMPLETIONS, "body": {"prompt": "p"}} | entry
    return read_request(json.dumps(line).encode(), 3, USUAL)


def test_a_request() -> None:
    found = read()
    assert isinstance(found, Request)
    assert (found.line, found.custom_id, found.terms.url, found.prompts) == (3, "a", COMPLETIONS, ["p"])


@pytest.mark.parametrize(
    ("entry", "custom_id", "code"),
    [
        ({"custom_id": 7}, None, "missing_custom_id"),
        ({"custom_id": ""}, None, "missing_custom_id"),
        ({"custom_id": None}, None, "missing_custom_id"),
        ({"method": "GET"}, "a", "invalid_method"),
        ({"url": None}, "a", "invalid_url"),
        ({"url": ["/v1/completions"]}, "a", "invalid_url"),
        ({"url": "/v1/score"}, "a", "invalid_url"),
        ({"body": None}, "a", "invalid_request"),
        ({"body": []}, "a", "invalid_request"),
        ({"body": {"prompt": "half: \ud800"}}, "a", "invalid_text"),
        ({"custom_id": "\ud800"}, None, "invalid_text"),
    ],
)
def test_a_line_that_is_no_request(entry: dict[str, Any], custom_id: str | None, code: str) -> None:
    found = read(**entry)
    assert isinstance(found, Refusal)
    assert (found.line, found.custom_id, found.code) == (3, custom_id, code)


@pytest.mark.parametrize(
    "line",
    [b"{", b"\xff", b"7", b"null", b"[" * 100_000, b'{"custom_id": ' + b"9" * 5000 + b"}", b'{"a": NaN}', b"1e999"],
)
def test_a_line_that_is_no_object(line: bytes) -> None:
    found = read_request(line, 1, USUAL)
    assert isinstance(found, Refusal)
    assert found.code in ("invalid_json_line", "invalid_text", "invalid_request")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KNOWN = {
    *("prompt", "messages", "input", "temperature", "stop", "tools", "tool_choice", "logprobs", "top_logprobs", "n"),
    *("response_format", "structured_outputs", "guided_choice", "chat_template_kwargs", "encoding_format", "seed"),
}


@settings(max_examples=50)
@given(
    st.one_of(JSON, st.dictionaries(st.sampled_from(sorted(KNOWN)), JSON)),
    st.sampled_from([COMPLETIONS, CHAT, EMBEDDINGS]),
)
def test_any_line_is_a_job_or_is_refused_in_a_sentence(body: Any, url: str) -> None:
    found = read(url=url, body=body)
    if isinstance(found, Refusal):
        assert found.message.endswith(".")
        return
    with suppress(SpecError):
        build_spec({"inputs": "a", "model": "m"} | found.terms.fields)
