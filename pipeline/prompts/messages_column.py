"""Stage 2, first step: rows that bring a whole chat along: a list of messages, or JSON text of one."""

import json
from dataclasses import dataclass
from datetime import datetime

from pipeline.errors import RowError, nearest
from pipeline.prompts.content import Content
from pipeline.prompts.conversation import Message, Varying
from pipeline.prompts.nested import json_like
from pipeline.prompts.template import Given
from pipeline.rows import Row

_ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class MessagesColumn:
    """Nothing that a row says is trusted; what it says beside role and content is for the chat template."""

    column: str
    system: str | None = None  #: for rows that bring no system message

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def varying(self) -> Varying | None:
        """Anything may differ."""
        return None

    @property
    def remedy(self) -> str:
        return "Shorten its messages"

    def at(self, submitted_at: datetime) -> "MessagesColumn":
        return self

    def values(self, row: Row) -> Given:
        """A list of objects, each with a role and a content."""
        value = row.values.get(self.column)
        found = json_like(self.column, _parsed(self.column, value) if isinstance(value, str) else value)
        if found == []:
            raise self._fault("holds an empty list in this row, where there must be a message at least")
        if not isinstance(found, list):
            raise self._fault(f"holds {_shown(found)} in this row, where a list of messages is wanted")
        messages = [self._checked(number, message) for number, message in enumerate(found, 1)]
        if messages[-1]["role"] == "assistant":
            raise self._fault("ends with the assistant's message in this row, and that is what the model is to write")
        return {self.column: messages}

    def ids(self, given: Given) -> None:
        return None

    def messages(self, given: Given) -> list[Message]:
        messages = given[self.column]
        assert isinstance(messages, list)
        found = [_message(**message) for message in messages]
        if self.system is not None and found[0].role not in ("system", "developer"):
            found.insert(0, Message("system", Content(self.system, self.system)))
        return found

    def marked(self, mark: str) -> list[dict[str, object]]:
        asked: dict[str, object] = {"role": "user", "content": mark}
        return [asked] if self.system is None else [{"role": "system", "content": self.system}, asked]

    def times(self, column: str) -> int:
        return 1

    def _checked(self, number: int, message: object) -> dict[str, object]:
        """With nothing in it that is null, as Parquet has every field in every message; but for the content."""
        if not isinstance(message, dict):
            raise self._fault(f"has {_shown(message)} as message {number} in this row, where an object is wanted")
        role = message.get("role")
        if role not in _ROLES:
            hint = nearest(role, _ROLES) if isinstance(role, str) else ""
            raise self._fault(
                f"has a message {number} of the role {_shown(role)} in this row. "
                f"A role is one of {', '.join(_ROLES)}.{hint}"
            )
        content = self._text(number, message.get("content"))
        if content is None and not message.get("tool_calls"):
            raise self._fault(f"has a message {number} without content in this row")
        return {name: part for name, part in message.items() if part is not None} | {"content": content}

    def _text(self, number: int, content: object) -> str | None:
        """Parts of text are one text."""
        if content is None or isinstance(content, str):
            return content
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
            raise self._fault(f"has a message {number} in this row whose content is no text")
        return "".join(map(str, texts))

    def _fault(self, what: str) -> RowError:
        return RowError("messages", f'The column "{self.column}" {what}{"" if what.endswith((".", "?")) else "."}')


def _message(role: str, content: str | None, **more: object) -> Message:
    return Message(role, None if content is None else Content(content), more)


def _parsed(column: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(
            "messages", f'The column "{column}" holds text in this row that is no JSON list of messages: {error}.'
        ) from error


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return f'"{value[:20]}"' if isinstance(value, str) else f"a value of type {type(value).__name__}"
