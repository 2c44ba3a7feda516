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

    Raises RowError for what has no messages, or one without a content. What else is wrong with a message is told when
    its row is read.
    """
    if not isinstance(messages, list):
        raise RowError("messages", "messages must be a list of messages.")
    if not messages:
        raise RowError("messages", "messages is empty. Give at least one message.")
    for place, message in enumerate(messages):
        _require_content(place, message)
    return json.dumps([_with_arguments(message) for message in messages], ensure_ascii=False)


def _require_content(place: int, message: Any) -> None:
    """Raises RowError. A message may call tools instead."""
    if isinstance(message, dict) and message.get("content") is None and not message.get("tool_calls"):
        raise RowError("messages", f"messages[{place}].content is {'null' if 'content' in message else 'missing'}.")


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
