"""What can be asked for, by url: a body as the terms of a job, and the prompts that it is to answer."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from pipeline.errors import RowError
from pipeline.openai.body import Body, Fields, as_object, unsupported
from pipeline.openai.chats import template_fields, written
from pipeline.openai.parameters import sampling
from pipeline.openai.response_format import shape
from pipeline.prompts.tokens_column import are_tokens

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"

#: The column of a prompt, and of the JSON text of a chat's messages, or of token ids.
CONTENT = "content"
#: Of a body, what holds its prompts.
PROMPTS = {COMPLETIONS: "prompt", CHAT: "messages", EMBEDDINGS: "input"}
_OF_TEXT: Fields = {"prompt": f"{{{CONTENT}}}", "raw": True}
_OF_TOKENS: Fields = {"tokens_column": CONTENT, "raw": True}

#: They change no answer.
_IGNORED = frozenset(
    {"cache_salt", "metadata", "model", "prediction", "priority", "prompt_cache_key", "request_id", "safety_identifier"}
    | {"service_tier", "session_id", "store", "stream_options", "user"}
)


@dataclass(frozen=True, slots=True)
class Usual:
    """What a body that does not say so is answered with."""

    max_tokens: int  #: of a chat
    pooling: Literal["last", "mean"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a line is to be answered; lines that agree in them are one job."""

    url: str
    fields: Fields
    encoding: str = "float"  #: of embeddings; or base64

    @property
    def key(self) -> str:
        """Equal where all is, the order within a schema included, in which its properties are written."""
        return json.dumps([self.url, sorted(self.fields.items(), key=itemgetter(0)), self.encoding])


def read_body(url: object, body: object, usual: Usual) -> tuple[Terms, list[str]]:
    """The prompts with it. Raises RowError for what cannot be answered as it is asked for."""
    if not isinstance(url, str) or url not in _READERS:
        raise RowError("invalid_url", f"url must be one of {', '.join(_READERS)}, not {url!r}.")
    given = as_object(body, "body").items()
    return _READERS[url]({name: value for name, value in given if value is not None and name not in _IGNORED}, usual)


def _completion(body: Body, usual: Usual) -> tuple[Terms, list[str]]:
    fields, prompts = _prompts(body, PROMPTS[COMPLETIONS])
    limit, logprobs = body.pop("max_tokens", 16), body.pop("logprobs", None)
    _require_as_usual(body, "add_special_tokens", True)
    return Terms(COMPLETIONS, fields | _generation(body, limit, logprobs)), prompts


def _chat(body: Body, usual: Usual) -> tuple[Terms, list[str]]:
    prompts = [written(body.pop(PROMPTS[CHAT], None))]
    limits = [body.pop(name) for name in ("max_completion_tokens", "max_tokens") if name in body]
    logprobs, top = body.pop("logprobs", False), body.pop("top_logprobs", 0)
    if not isinstance(logprobs, bool):
        raise RowError("invalid_parameter", "logprobs must be true or false; top_logprobs says how many.")
    if top and not logprobs:
        raise RowError("invalid_parameter", "top_logprobs needs logprobs, which must be true.")
    _require_as_usual(body, "add_special_tokens", False)
    fields = {"messages_column": CONTENT} | template_fields(body)
    limit = limits[0] if limits else usual.max_tokens
    return Terms(CHAT, fields | _generation(body, limit, top if logprobs else None)), prompts


def _embedding(body: Body, usual: Usual) -> tuple[Terms, list[str]]:
    fields, prompts = _prompts(body, PROMPTS[EMBEDDINGS])
    encoding = body.pop("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise RowError("invalid_parameter", "encoding_format must be float or base64.")
    _require_as_usual(body, "add_special_tokens", True)
    _require_as_usual(body, "normalize", True)
    for name in body:
        raise unsupported(name)
    return Terms(EMBEDDINGS, fields | {"embed": usual.pooling}, encoding), prompts


_READERS: dict[str, Callable[[Body, Usual], tuple[Terms, list[str]]]] = {
    COMPLETIONS: _completion,
    CHAT: _chat,
    EMBEDDINGS: _embedding,
}


def _generation(body: Body, max_tokens: object, logprobs: object) -> Fields:
    return {"max_tokens": max_tokens, "logprobs": logprobs} | shape(body) | sampling(body)


def _require_as_usual(body: Body, name: str, usual: bool) -> None:
    if body.pop(name, usual) is not usual:
        raise unsupported(name)


def _prompts(body: Body, name: str) -> tuple[Fields, list[str]]:
    """One or several, texts or lists of token ids, and how a job reads them."""
    match body.pop(name, None):
        case str(text):
            return _OF_TEXT, [text]
        case [str(), *_] as texts if all(isinstance(text, str) for text in texts):
            return _OF_TEXT, list(texts)
        case [int(), *_] as tokens if are_tokens(tokens):
            return _OF_TOKENS, [json.dumps(tokens)]
        case [[*_], *_] as lists if all(map(are_tokens, lists)):
            return _OF_TOKENS, [json.dumps(tokens) for tokens in lists]
    raise RowError(f"invalid_{name}", f"{name} must be a text, a list of texts, or of token ids.")
