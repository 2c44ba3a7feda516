"""Stage 2, first step: rows that bring a whole chat along: a list of messages, or JSON text of one."""

import json
from dataclasses import dataclass
from datetime import datetime

from pipeline.errors import RowError
from pipeline.prompts.chat_messages import checked, fault, shown
from pipeline.prompts.content import Content
from pipeline.prompts.conversation import Message, Varying
from pipeline.prompts.nested import json_like
from pipeline.prompts.template import Given
from pipeline.rows import Row


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
            raise self._fault(f"holds {shown(found)} in this row, where a list of messages is wanted")
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
        def named(field: str) -> str:
            whole = f'essage {number} in the column "{self.column}"'
            return f"The {field} of m{whole}" if field else f"M{whole}"

        return checked(message, named)

    def _fault(self, what: str) -> RowError:
        return fault(f'The column "{self.column}" {what}.')


def _message(role: str, content: str | None, **more: object) -> Message:
    return Message(role, None if content is None else Content(content), more)


def _parsed(column: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(
            f'The column "{column}" holds text in this row that is no JSON list of messages: {error}.'
        ) from error
