"""A chat's part of a body: its messages, and what the model's chat template is told besides them."""

import json
from typing import Any

from pipeline.errors import RowError
from pipeline.openai.body import Body, Fields, as_object


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

    What is wrong with a message is told when its row is read.
    """
    found = [_with_arguments(message) for message in messages] if isinstance(messages, list) else messages
    return json.dumps(found, ensure_ascii=False)


def _with_arguments(message: Any) -> Any:
    match message:
        case {"tool_calls": [*calls]}:
            return {**message, "tool_calls": [_call(call) for call in calls]}
    return message


def _call(call: Any) -> Any:
    match call:
        case {"function": {"arguments": str(text)}}:
            try:
                arguments = json.loads(text or "{}")
            except (ValueError, RecursionError):
                return call
            return {**call, "function": {**call["function"], "arguments": arguments}}
    return call
