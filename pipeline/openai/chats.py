"""A chat's part of a body: its messages, and what the model's chat template is told besides them."""

import json
from contextlib import suppress
from functools import partial
from typing import Any

from pipeline.errors import RowError
from pipeline.openai.body import Body, Fields, as_object
from pipeline.prompts.chat_messages import checked, fault
from pipeline.prompts.nested import json_like


def template_fields(body: Body) -> Fields:
    """Takes out of the body what they are made of. Raises RowError."""
    tools, choice = body.pop("tools", []), body.pop("tool_choice", "auto")
    if choice not in ("auto", "none"):
        raise RowError("unsupported_parameter", "tool_choice must be auto or none: no answer is held to a call.")
    variables = as_object(body.pop("chat_template_kwargs", {}), "chat_template_kwargs")
    efforts = {"reasoning_effort": body.pop("reasoning_effort")} if "reasoning_effort" in body else {}
    fields = {"tools": tools if choice == "auto" else [], "template_vars": variables | efforts}
    return {name: value for name, value in fields.items() if value}


def written(messages: object) -> str:
    """As JSON, the arguments of functions that were called as objects, which is how chat templates take them.

    Raises RowError that tells of messages and their fields as the body has them.
    """
    if not isinstance(messages, list):
        raise fault("messages must be a list of messages.")
    if not messages:
        raise fault("messages is empty. Give at least one message.")
    for place, message in enumerate(messages):
        checked(message, partial(_named, place))
    if messages[-1]["role"] == "assistant":
        raise fault(f"{_named(len(messages) - 1, '')} is the assistant's, and that is what the model is to write.")
    return json.dumps([_with_arguments(message) for message in messages], ensure_ascii=False)


def _named(place: int, field: str) -> str:
    return f"messages[{place}].{field}" if field else f"messages[{place}]"


def _with_arguments(message: Any) -> Any:
    match message:
        case {"tool_calls": [*calls]}:
            return {**message, "tool_calls": [_call(call) for call in calls]}
    return message


def _call(call: Any) -> Any:
    match call:
        case {"function": {"arguments": str(text)}}:
            with suppress(ValueError, RecursionError, RowError):
                arguments = json_like("arguments", json.loads(text or "{}"))
                return {**call, "function": {**call["function"], "arguments": arguments}}
    return call
