"""What an answer is to look like, as OpenAI's service and as vLLM are told it, in the terms of a job."""

import re
from collections.abc import Iterator

from pipeline.errors import RowError
from pipeline.openai.body import Body, Fields, as_object, unsupported

_ANY_OBJECT = {"type": "object"}
#: vLLM's older names for what stands in structured_outputs by now.
_GUIDED = ("json", "regex", "choice", "grammar", "json_object")


def shape(body: Body) -> Fields:
    """Takes out of the body what says it: one of json_schema, regex and grammar, or nothing. Raises RowError."""
    guided = {kind: body.pop(f"guided_{kind}", None) for kind in _GUIDED}
    structured = as_object(body.pop("structured_outputs", {}), "structured_outputs")
    format_ = as_object(body.pop("response_format", {"type": "text"}), "response_format")
    shapes = [*_format(format_), *_structured(guided), *_structured(structured)]
    if len(shapes) > 1:
        raise RowError("invalid_parameter", "An answer has one shape, and this asks for two. Leave one of them out.")
    return shapes[0] if shapes else {}


def _format(asked: Body) -> Iterator[Fields]:
    match asked:
        case {"type": "text"}:
            return
        case {"type": "json_object"}:
            yield {"json_schema": _ANY_OBJECT}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            yield {"json_schema": schema}
        case _:
            raise RowError(
                "invalid_parameter",
                "response_format must be of the type text, json_object, or json_schema with a json_schema.schema.",
            )


def _structured(asked: Body) -> Iterator[Fields]:
    """An answer comes on one line as it is, so that white space need not be forbidden."""
    for kind, value in asked.items():
        match kind, value:
            case (_, None) | ("json_object", False) | ("disable_any_whitespace", bool()):
                continue
            case "json", _:
                yield {"json_schema": value}
            case "json_object", True:
                yield {"json_schema": _ANY_OBJECT}
            case "choice", [str(), *_] if all(isinstance(choice, str) for choice in value):
                yield {"regex": "|".join(map(re.escape, value))}
            case (("regex" | "grammar"), _):
                yield {kind: value}
            case _:
                raise unsupported(kind)
