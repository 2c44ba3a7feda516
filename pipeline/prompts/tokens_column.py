"""Stage 2, first step: rows that bring their prompt along as token ids: a list of numbers, or JSON text of one."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard

from pipeline.errors import RowError
from pipeline.prompts.conversation import Message, Varying
from pipeline.prompts.template import Given
from pipeline.rows import Row

#: What a tokenizer can be asked for.
_IDS = range(1 << 32)


def are_tokens(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(each) is int and each in _IDS for each in value)


@dataclass(frozen=True, slots=True)
class TokensColumn:
    """They are all that the model reads: there is no message, and a special token among them is one."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def varying(self) -> Varying | None:
        return None

    @property
    def remedy(self) -> str:
        return "Give it fewer token ids"

    def at(self, submitted_at: datetime) -> "TokensColumn":
        return self

    def values(self, row: Row) -> Given:
        """A tuple of numbers."""
        value = row.values.get(self.column)
        if value is None:
            raise RowError("null", f'The column "{self.column}" is null in this row, so it has no prompt.')
        found = _parsed(value) if isinstance(value, str) else value
        if not are_tokens(found):
            raise RowError(
                "wrong_type", f'The column "{self.column}" holds no list of token ids in this row, such as [12, 345].'
            )
        return {self.column: tuple(found)}

    def ids(self, given: Given) -> tuple[int, ...] | None:
        found = given[self.column]
        assert isinstance(found, tuple)
        return found

    def messages(self, given: Given) -> list[Message]:
        return []

    def marked(self, mark: str) -> list[dict[str, object]]:
        return []

    def times(self, column: str) -> int:
        return 1


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
