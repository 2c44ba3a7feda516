"""Answers as a line of OpenAI's output file, and a failure as one of its error file."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from struct import iter_unpack
from typing import Any

from pipeline.openai import endpoints
from pipeline.openai.endpoints import Terms
from pipeline.openai.requests import Refusal
from pipeline.rows import Completion, Sample, TokenLogprob

Answer = dict[str, Any]


def output_line(
    custom_id: str, terms: Terms, model: str, created: int, request_id: str, answered: Sequence[Completion]
) -> bytes:
    """Of a request whose prompts were all answered; `created` is in seconds since 1970."""
    match terms.url:
        case endpoints.EMBEDDINGS:
            body = _embeddings(answered, terms.encoding)
        case endpoints.CHAT:
            body = {"id": f"chatcmpl-{request_id}", "object": "chat.completion", "created": created}
            body |= _choices(answered, _chat_choice)
        case _:
            body = {"id": f"cmpl-{request_id}", "object": "text_completion", "created": created}
            body |= _choices(answered, _completion_choice)
    return _line(custom_id, request_id, 200, body | {"model": model}, None)


def error_line(refusal: Refusal, request_id: str) -> bytes:
    """Told twice: scripts look for the status of the response, or for an error beside it."""
    error = {"code": refusal.code, "message": f"Line {refusal.line}: {refusal.message}"}
    body = {"error": {**error, "type": "invalid_request_error", "param": None}}
    return _line(refusal.custom_id, request_id, 400, body, error)


def _line(custom_id: str | None, request_id: str, status: int, body: Answer, error: Answer | None) -> bytes:
    response = {"status_code": status, "request_id": request_id, "body": body}
    line = {"id": f"batch_req_{request_id}", "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _embeddings(answered: Sequence[Completion], encoding: str) -> Answer:
    vectors = [_vector(answer.embedding or b"", encoding) for answer in answered]
    tokens = sum(answer.prompt_tokens for answer in answered)
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _vector(embedding: bytes, encoding: str) -> str | list[float]:
    """The service's base64 is of the same bytes: float32 numbers, little-endian."""
    return b64encode(embedding).decode() if encoding == "base64" else [each for (each,) in iter_unpack("<f", embedding)]


def _choices(answered: Sequence[Completion], choice: Callable[[Sample], Answer]) -> Answer:
    """All answers to the first prompt come first."""
    samples = chain.from_iterable(map(_samples, answered))
    prompt_tokens = sum(answer.prompt_tokens for answer in answered)
    output_tokens = sum(answer.output_tokens for answer in answered)
    return {
        "choices": [{"index": index, **choice(sample)} for index, sample in enumerate(samples)],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(answer.reused_tokens for answer in answered)},
        },
    }


def _samples(answered: Completion) -> Sequence[Sample]:
    return answered.samples or (
        Sample(answered.output or "", answered.finish_reason or "stop", answered.output_tokens, answered.logprobs),
    )


def _chat_choice(sample: Sample) -> Answer:
    content = [
        _likely(token.token, token.logprob)
        | {"top_logprobs": [_likely(other.token, other.logprob) for other in token.top]}
        for token in sample.logprobs
    ]
    return {
        "message": {"role": "assistant", "content": sample.output, "refusal": None},
        "logprobs": {"content": content} if content else None,
        "finish_reason": _finish_reason(sample),
    }


def _likely(token: str, logprob: float) -> Answer:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace"))}


def _finish_reason(sample: Sample) -> str:
    """The service knows of no answer that is cut by a stop string: it ended there."""
    return "stop" if sample.finish_reason == "cut" else sample.finish_reason


def _completion_choice(sample: Sample) -> Answer:
    return {
        "text": sample.output,
        "logprobs": _completion_logprobs(sample.logprobs) if sample.logprobs else None,
        "finish_reason": _finish_reason(sample),
    }


def _completion_logprobs(tokens: tuple[TokenLogprob, ...]) -> Answer:
    texts = [token.token for token in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [
            {other.token: other.logprob for other in token.top} | {token.token: token.logprob} for token in tokens
        ],
        "text_offset": list(accumulate(map(len, texts), initial=0))[:-1],
    }
