import json
from base64 import b64decode
from struct import pack
from typing import Any

from pipeline.openai.endpoints import CHAT, COMPLETIONS, EMBEDDINGS, Terms
from pipeline.openai.requests import Refusal
from pipeline.openai.responses import error_line, output_line
from pipeline.rows import Completion, LikelyToken, Sample, Status, TokenLogprob

TOKENS = (
    TokenLogprob(1, "Hé", -0.5, (LikelyToken(1, "Hé", -0.5), LikelyToken(2, "x", -2.0))),
    TokenLogprob(3, "!", -0.1),
)


def read(terms: Terms, *answered: Completion) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output_line("mine", terms, "m", 1700000000, "j-0", answered))
    return found


def answer(url: str, **facts: Any) -> dict[str, Any]:
    usual = {"output": "Hé!", "finish_reason": "stop", "prompt_tokens": 7, "reused_tokens": 4, "output_tokens": 3}
    return read(Terms(url, {}), Completion(0, "1", Status.OK, **(usual | facts)))


def test_a_chats_answer() -> None:
    assert answer(CHAT) == {
        "id": "batch_req_j-0",
        "custom_id": "mine",
        "response": {
            "status_code": 200,
            "request_id": "j-0",
            "body": {
                "id": "chatcmpl-j-0",
                "object": "chat.completion",
                "created": 1700000000,
                "model": "m",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "Hé!", "refusal": None},
                        "logprobs": None,
                        "finish_reason": "stop",
                    }
                ],
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 3,
                    "total_tokens": 10,
                    "prompt_tokens_details": {"cached_tokens": 4},
                },
            },
        },
        "error": None,
    }


def test_a_completions_answer_with_logprobs() -> None:
    body = answer(COMPLETIONS, logprobs=TOKENS)["response"]["body"]
    assert (body["object"], body["id"]) == ("text_completion", "cmpl-j-0")
    assert body["choices"] == [
        {
            "index": 0,
            "text": "Hé!",
            "logprobs": {
                "tokens": ["Hé", "!"],
                "token_logprobs": [-0.5, -0.1],
                "top_logprobs": [{"Hé": -0.5, "x": -2.0}, {"!": -0.1}],
                "text_offset": [0, 2],
            },
            "finish_reason": "stop",
        }
    ]


def test_a_chats_logprobs() -> None:
    [choice] = answer(CHAT, logprobs=TOKENS)["response"]["body"]["choices"]
    first = {"token": "Hé", "logprob": -0.5, "bytes": [72, 195, 169]}
    other = {"token": "x", "logprob": -2.0, "bytes": [120]}
    assert choice["logprobs"]["content"][0] == first | {"top_logprobs": [first, other]}


def test_several_samples_are_choices() -> None:
    samples = (Sample("a", "stop", 1), Sample("b", "length", 2))
    choices = answer(CHAT, samples=samples)["response"]["body"]["choices"]
    assert [(choice["index"], choice["message"]["content"], choice["finish_reason"]) for choice in choices] == [
        (0, "a", "stop"),
        (1, "b", "length"),
    ]


def test_answers_to_several_prompts_are_choices_too() -> None:
    samples = (Sample("a", "stop", 1), Sample("b", "length", 2))
    both = Completion(0, "1.0", Status.TRUNCATED, samples=samples, prompt_tokens=4, output_tokens=3)
    last = Completion(1, "1.1", Status.OK, "c", finish_reason="stop", prompt_tokens=5, output_tokens=1, reused_tokens=2)
    body = read(Terms(COMPLETIONS, {}), both, last)["response"]["body"]
    assert [(choice["index"], choice["text"]) for choice in body["choices"]] == [(0, "a"), (1, "b"), (2, "c")]
    details = {"prompt_tokens_details": {"cached_tokens": 2}}
    assert body["usage"] == {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, **details}


def test_embeddings_as_numbers_and_as_bytes() -> None:
    vectors = [pack("<2f", 0.5, -0.25), pack("<2f", 1, 0)]
    answers = [Completion(n, f"1.{n}", Status.OK, embedding=v, prompt_tokens=3) for n, v in enumerate(vectors)]
    body = read(Terms(EMBEDDINGS, {}), *answers)["response"]["body"]
    assert body == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, -0.25]},
            {"object": "embedding", "index": 1, "embedding": [1, 0]},
        ],
        "model": "m",
        "usage": {"prompt_tokens": 6, "total_tokens": 6},
    }
    packed = read(Terms(EMBEDDINGS, {}, "base64"), *answers)["response"]["body"]["data"]
    assert [b64decode(each["embedding"]) for each in packed] == vectors


def test_an_error_is_told_as_a_status_and_as_an_error() -> None:
    line = json.loads(error_line(Refusal(3, None, "invalid_json_line", "It is not JSON."), "line-3"))
    error = {"code": "invalid_json_line", "message": "Line 3: It is not JSON."}
    assert (line["custom_id"], line["error"]) == (None, error)
    assert line["response"]["status_code"] == 400
    assert line["response"]["body"]["error"].items() >= error.items()
