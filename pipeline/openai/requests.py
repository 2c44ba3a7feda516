"""A line of a batch file as OpenAI's service takes it: what it asks of a model, or why it cannot be answered."""

import json
from dataclasses import dataclass
from typing import Any

Fields = dict[str, Any]  #: of a JobSpec


@dataclass(frozen=True, slots=True)
class Request:
    """`fields` say how to answer, and lines that agree in them are one job; `content` is what is answered."""

    line: int  #: its number in the file, from 1
    custom_id: str
    url: str
    fields: Fields
    content: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What an error line is made of."""

    line: int
    custom_id: str | None
    code: str
    message: str


COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"

#: What a body may say of how tokens are picked, under the same names as a job, and when that is as if it said nothing.
_AS_THEY_ARE: dict[str, tuple[object, ...]] = {
    "top_p": (1,), "top_k": (0, -1), "min_p": (0,), "repetition_penalty": (1,), "presence_penalty": (0,),
    "n": (1,), "stop": ([],), "seed": (),
}  # fmt: skip
#: They change nothing where the likeliest token is taken.
_DRAWING = ("top_p", "top_k", "min_p", "seed")
#: They change no answer.
_IGNORED = frozenset(
    {"model", "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "stream_options"}
)
#: What cannot be done, unless it is said to be left undone.
_UNDONE: dict[str, tuple[object, ...]] = {
    "frequency_penalty": (0,), "best_of": (1,), "echo": (False,), "suffix": ("",), "stream": (False,),
    "logit_bias": ({},), "response_format": ({"type": "text"},), "tools": ([],), "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False), "modalities": (["text"],), "functions": ([],),
}  # fmt: skip


def read_request(data: bytes, line: int, max_tokens: int) -> Request | Refusal:
    """`max_tokens` is for a chat that names no limit."""
    custom_id = None
    try:
        entry = _object(json.loads(data.decode(), parse_float=_number), "The line")
        custom_id = entry.get("custom_id")
        if not isinstance(custom_id, str) or not custom_id:
            custom_id = None
            raise _RefusedError("missing_custom_id", "custom_id must be a text of your own, other on each line.")
        if entry.get("method", "POST") != "POST":
            raise _RefusedError("invalid_method", f"method must be POST, not {entry['method']!r}.")
        fields, content = _read(entry.get("url"), _object(entry.get("body"), "body"), max_tokens)
        for text in (custom_id, content, fields.get("system", "")):
            text.encode()
    except UnicodeError:
        return Refusal(line, None, "invalid_text", f"Line {line} is not text, or holds half of a surrogate pair.")
    except (ValueError, RecursionError) as error:
        return Refusal(line, None, "invalid_json_line", f"Line {line} is not JSON: {error}.")
    except _RefusedError as error:
        return Refusal(line, custom_id, error.code, str(error))
    return Request(line, custom_id, entry["url"], fields, content)


class _RefusedError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _number(text: str) -> int | float:
    """1.0 asks for what 1 does."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _object(value: object, what: str) -> Fields:
    if not isinstance(value, dict):
        raise _RefusedError("invalid_request", f"{what} must be an object.")
    return value


def _read(url: object, body: Fields, max_tokens: int) -> tuple[Fields, str]:
    asked = {name: value for name, value in body.items() if value is not None and name not in _IGNORED}
    if url == COMPLETIONS:
        content = asked.pop("prompt", None)
        if not isinstance(content, str):
            raise _RefusedError("invalid_prompt", "prompt must be one text.")
        limit, logprobs, fields = asked.pop("max_tokens", 16), asked.pop("logprobs", None), {"raw": True}
    elif url == CHAT:
        fields, content = _chat(asked.pop("messages", None))
        limit = asked.pop("max_completion_tokens", asked.pop("max_tokens", max_tokens))
        asked.pop("max_tokens", None)
        top = asked.pop("top_logprobs", 0)
        logprobs = top if asked.pop("logprobs", False) else None
    else:
        raise _RefusedError("invalid_url", f"url must be {COMPLETIONS} or {CHAT}, not {url!r}.")
    fields |= {"max_tokens": limit, "logprobs": logprobs}
    return fields | _sampling(asked), content


def _sampling(asked: Fields) -> Fields:
    fields = {"temperature": asked.pop("temperature", 1)}
    for name, value in asked.items():
        if name in _UNDONE and value in _UNDONE[name]:
            continue
        if name not in _AS_THEY_ARE:
            raise _RefusedError("unsupported_parameter", f"{name} is not supported. Leave it out.")
        if value in _AS_THEY_ARE[name] or (name in _DRAWING and fields["temperature"] == 0):
            continue
        fields[name] = value
    return fields


def _chat(messages: object) -> tuple[Fields, str]:
    """The one place that knows which chats can be answered: as yet one message, and a system message before it."""
    match messages:
        case [{"role": "user", "content": content}]:
            return {}, _text(content)
        case [{"role": "system" | "developer", "content": system}, {"role": "user", "content": content}]:
            return {"system": _text(system)}, _text(content)
    raise _RefusedError(
        "unsupported_messages",
        "messages must be one of the role user, with or without one of the role system before it.",
    )


def _text(content: object) -> str:
    """Parts of text are one text."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise _RefusedError("unsupported_content", "content must be text.")
    return "".join(map(str, texts))
