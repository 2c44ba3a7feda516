"""Stage 2: what a message of a chat must be, whoever brings it along: a row, or a line of a batch file."""

from collections.abc import Callable

from pipeline.errors import RowError, nearest

ROLES = ("system", "developer", "user", "assistant", "tool")


def checked(message: object, named: Callable[[str], str]) -> dict[str, object]:
    """With nothing in it that is null, as Parquet has every field in every message; but for the content.

    `named` says what a person calls the message's field of that name, or with "" the message. Raises RowError.
    """
    if not isinstance(message, dict):
        raise fault(f"{named('')} is {shown(message)}, where an object is wanted.")
    role = message.get("role")
    if role not in ROLES:
        hint = nearest(role, ROLES) if isinstance(role, str) else ""
        raise fault(f"{named('role')} is {shown(role)}. A role is one of {', '.join(ROLES)}.{hint}")
    content = _text(message.get("content"), named)
    if content is None and not message.get("tool_calls"):
        raise fault(f"{named('content')} is {'null' if 'content' in message else 'missing'}.")
    return {name: part for name, part in message.items() if part is not None} | {"content": content}


def fault(what: str) -> RowError:
    return RowError("messages", what)


def shown(value: object) -> str:
    if value is None:
        return "null"
    return f'"{value[:20]}"' if isinstance(value, str) else f"a value of type {type(value).__name__}"


def _text(content: object, named: Callable[[str], str]) -> str | None:
    """Parts of text are one text."""
    if content is None or isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        raise fault(f'{named("content")} is no text, and no list of parts of the type "text".')
    return "".join(map(str, texts))
