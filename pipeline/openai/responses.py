"""An answer as a line of OpenAI's output file, and a failure as one of its error file."""

import json
from itertools import accumulate
from typing import Any

from pipeline.openai.requests import CHAT, Refusal
from pipeline.rows import Completion, Sample, TokenLogprob

Answer = dict[str, Any]


def output_line(custom_id: str, url: str, model: str, created: int, request_id: str, answered: Completion) -> bytes:
    """Of a row that was answered; `created` is in seconds since 1970."""
    samples = answered.samples or (
        Sample(answered.output or "", answered.finish_reason or "stop", answered.output_tokens, answered.logprobs),
    )
    choice = _chat_choice if url == CHAT else _completion_choice
    body = {
        "id": f"{'chatcmpl' if url == CHAT else 'cmpl'}-{request_id}",
        "object": "chat.completion" if url == CHAT else "text_completion",
        "created": created,
        "model": model,
        "choices": [{"index": index, **choice(sample)} for index, sample in enumerate(samples)],
        "usage": {
            "prompt_tokens": answered.prompt_tokens,
            "completion_tokens": answered.output_tokens,
            "total_tokens": answered.prompt_tokens + answered.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answered.reused_tokens},
        },
    }
    return _line(custom_id, request_id, 200, body, None)


def error_line(refusal: Refusal, request_id: str) -> bytes:
    """Told twice: scripts look for the status of the response, or for an error beside it."""
    error = {"code": refusal.code, "message": refusal.message}
    body = {"error": {**error, "type": "invalid_request_error", "param": None}}
    return _line(refusal.custom_id, request_id, 400, body, error)


def _line(custom_id: str | None, request_id: str, status: int, body: Answer, error: Answer | None) -> bytes:
    response = {"status_code": status, "request_id": request_id, "body": body}
    line = {"id": f"batch_req_{request_id}", "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _chat_choice(sample: Sample) -> Answer:
    content = [
        _likely(token.token, token.logprob)
        | {"top_logprobs": [_likely(other.token, other.logprob) for other in token.top]}
        for token in sample.logprobs
    ]
    return {
        "message": {"role": "assistant", "content": sample.output, "refusal": None},
        "logprobs": {"content": content} if content else None,
        "finish_reason": sample.finish_reason,
    }


def _likely(token: str, logprob: float) -> Answer:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace"))}


def _completion_choice(sample: Sample) -> Answer:
    return {
        "text": sample.output,
        "logprobs": _completion_logprobs(sample.logprobs) if sample.logprobs else None,
        "finish_reason": sample.finish_reason,
    }


def _completion_logprobs(tokens: tuple[TokenLogprob, ...]) -> Answer:
    texts = [token.token for token in tokens]
    return {
        "tokens": texts,
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [{other.token: other.logprob for other in token.top} for token in tokens],
        "text_offset": list(accumulate(map(len, texts), initial=0))[:-1],
    }
