import json
from typing import Any

import pytest

from pipeline.errors import RowError
from pipeline.openai.endpoints import CHAT, COMPLETIONS, EMBEDDINGS, Terms, Usual, read_body

USER = {"role": "user", "content": "Hi"}
OWN = {COMPLETIONS: {"prompt": "p"}, CHAT: {"messages": [USER]}, EMBEDDINGS: {"input": "i"}}


def read(url: str, **body: Any) -> tuple[Terms, list[str]]:
    return read_body(url, {"model": "any"} | OWN[url] | body, Usual(99, "mean"))


def fields(url: str, **body: Any) -> dict[str, Any]:
    return read(url, **body)[0].fields


def test_a_completion_with_the_services_defaults() -> None:
    usual = {"prompt": "{content}", "raw": True, "max_tokens": 16, "logprobs": None, "temperature": 1}
    assert read(COMPLETIONS, prompt="Say", user="me") == (Terms(COMPLETIONS, usual), ["Say"])


def test_a_chat_with_the_services_defaults() -> None:
    messages = [{"role": "system", "content": "Be kind."}, USER, {"role": "assistant", "content": "Ho"}, USER]
    terms, (prompt,) = read(CHAT, messages=messages)
    usual = {"messages_column": "content", "max_tokens": 99, "logprobs": None, "temperature": 1}
    assert (terms, json.loads(prompt)) == (Terms(CHAT, usual), messages)


def test_an_embedding() -> None:
    terms, prompts = read(EMBEDDINGS, input=["a", "b"], encoding_format="base64", user="me", dimensions=None)
    usual = {"prompt": "{content}", "raw": True, "embed": "mean"}
    assert (terms, prompts) == (Terms(EMBEDDINGS, usual, "base64"), ["a", "b"])


def test_several_prompts_of_a_completion() -> None:
    assert read(COMPLETIONS, prompt=["a", "b"])[1] == ["a", "b"]


def test_token_ids() -> None:
    for url, name in ((COMPLETIONS, "prompt"), (EMBEDDINGS, "input")):
        (one, prompts), (same, several) = read(url, **{name: [5, 6]}), read(url, **{name: [[5], [6, 7]]})
        assert one == same
        assert one.fields.items() >= {"tokens_column": "content", "raw": True}.items()
        assert "prompt" not in one.fields
        assert (prompts, several) == (["[5, 6]"], ["[5]", "[6, 7]"])


def test_a_limit_of_a_chat_goes_by_two_names() -> None:
    assert fields(CHAT, max_tokens=7)["max_tokens"] == 7
    assert fields(CHAT, max_tokens=7, max_completion_tokens=5)["max_tokens"] == 5


def test_logprobs_are_asked_for_in_two_ways() -> None:
    assert fields(COMPLETIONS, logprobs=3)["logprobs"] == 3
    assert fields(CHAT, logprobs=True, top_logprobs=2)["logprobs"] == 2
    assert fields(CHAT, logprobs=True)["logprobs"] == 0
    assert fields(CHAT, logprobs=False)["logprobs"] is None


def test_terms_differ_by_the_order_within_a_schema_and_by_no_other() -> None:
    one, other = ({"type": "object", "properties": {name: {} for name in names}} for names in ("ab", "ba"))
    assert read(CHAT, guided_json=one, n=2)[0].key == read(CHAT, n=2.0, guided_json=one, temperature=1.0)[0].key
    assert read(CHAT, guided_json=one)[0].key != read(CHAT, guided_json=other)[0].key


@pytest.mark.parametrize(
    ("url", "body", "code", "message"),
    [
        (COMPLETIONS, {"prompt": None}, "invalid_prompt", "prompt must be a text, a list of texts, or of token ids."),
        (COMPLETIONS, {"prompt": []}, "invalid_prompt", "prompt must be a text, a list of texts, or of token ids."),
        (
            COMPLETIONS,
            {"prompt": ["a", 1]},
            "invalid_prompt",
            "prompt must be a text, a list of texts, or of token ids.",
        ),
        (COMPLETIONS, {"add_special_tokens": False}, "unsupported_parameter", "add_special_tokens is not supported."),
        (CHAT, {"logprobs": 3}, "invalid_parameter", "logprobs must be true or false; top_logprobs says how many."),
        (CHAT, {"top_logprobs": 3}, "invalid_parameter", "top_logprobs needs logprobs, which must be true."),
        (CHAT, {"add_special_tokens": True}, "unsupported_parameter", "add_special_tokens is not supported."),
        (
            COMPLETIONS,
            {"prompt": [1, True]},
            "invalid_prompt",
            "prompt must be a text, a list of texts, or of token ids.",
        ),
        (
            EMBEDDINGS,
            {"input": [[1], [-1]]},
            "invalid_input",
            "input must be a text, a list of texts, or of token ids.",
        ),
        (EMBEDDINGS, {"input": {}}, "invalid_input", "input must be a text, a list of texts, or of token ids."),
        (EMBEDDINGS, {"encoding_format": "int8"}, "invalid_parameter", "encoding_format must be float or base64."),
        (EMBEDDINGS, {"dimensions": 8}, "unsupported_parameter", "dimensions is not supported. Leave it out."),
        (EMBEDDINGS, {"normalize": False}, "unsupported_parameter", "normalize is not supported. Leave it out."),
        (EMBEDDINGS, {"temperature": 0}, "unsupported_parameter", "temperature is not supported. Leave it out."),
    ],
)
def test_what_cannot_be_answered_is_told(url: str, body: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(RowError) as caught:
        read(url, **body)
    assert caught.value.error_type == code
    assert str(caught.value).startswith(message)
