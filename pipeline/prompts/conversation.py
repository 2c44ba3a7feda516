"""Stage 2, first step: the messages that a row's prompt is made of, each a template; in raw mode it is one, bare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from pipeline.prompts.content import Content
from pipeline.prompts.jinja_template import JinjaTemplate
from pipeline.prompts.limits import CUTTING
from pipeline.prompts.template import Given, Segment, Template
from pipeline.rows import Row


@dataclass(frozen=True, slots=True)
class Message:
    """Of one row. No special token counts in what is `more`, or the role."""

    role: str
    content: Content | None
    more: Mapping[str, object] = field(default_factory=dict)  #: as JSON has it, such as tool_calls


class Shape(Protocol):
    """Where a row's messages come from."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that are read."""

    @property
    def varying(self) -> "Varying | None":
        """None where rows do not differ in one message alone, or not in a way that can be told before."""

    @property
    def remedy(self) -> str:
        """What to do about a prompt that is too long, as the beginning of a sentence."""

    def at(self, submitted_at: datetime) -> "Shape": ...

    def values(self, row: Row) -> Given:
        """By column. Raises RowError for a value that it cannot use."""

    def ids(self, given: Given) -> tuple[int, ...] | None:
        """All of a prompt that its row brings along as that; None where it is made of messages."""

    def messages(self, given: Given) -> list[Message]:
        """Raises RowError."""

    def marked(self, mark: str) -> list[dict[str, object]]:
        """As a chat template takes them, with the mark in all places that differ between rows."""

    def times(self, column: str) -> int:
        """How often a prompt holds the column's text, as far as that can be known; 1 at least."""


@dataclass(frozen=True, slots=True)
class Turn:
    role: str
    template: Template | JinjaTemplate


@dataclass(frozen=True, slots=True)
class Conversation:
    """The same messages for every row, but for the values in them."""

    turns: tuple[Turn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for turn in self.turns for column in turn.template.columns))

    @property
    def varying(self) -> "Varying | None":
        places = [place for place, turn in enumerate(self.turns) if turn.template.columns]
        if len(places) != 1 or not self.turns[places[0]].template.segments:
            return None
        return Varying(self.turns, places[0])

    @property
    def remedy(self) -> str:
        return f"Shorten the row's text{CUTTING}" if self.columns else "Shorten it"

    def at(self, submitted_at: datetime) -> "Conversation":
        return Conversation(tuple(replace(turn, template=turn.template.at(submitted_at)) for turn in self.turns))

    def values(self, row: Row) -> Given:
        found: dict[str, object] = {}
        for turn in self.turns:
            found |= turn.template.values(row)
        return found

    def ids(self, given: Given) -> None:
        return None

    def messages(self, given: Given) -> list[Message]:
        return [Message(turn.role, turn.template.content(given)) for turn in self.turns]

    def marked(self, mark: str) -> list[dict[str, object]]:
        return [_plain(turn.role, turn.template.marked(mark)) for turn in self.turns]

    def times(self, column: str) -> int:
        return max(1, sum(turn.template.times(column) for turn in self.turns))


@dataclass(frozen=True, slots=True)
class Varying:
    """The one of a conversation's messages that differs between rows."""

    turns: tuple[Turn, ...]
    place: int

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.turns[self.place].template.segments

    @property
    def within(self) -> tuple[str, ...]:
        """The message's own texts that stand in what fills a field, where no special token in them would count."""
        return self.turns[self.place].template.within

    def texts(self, given: Given) -> Mapping[str, str]:
        """What stands in the fields of `segments`. Raises RowError."""
        return self.turns[self.place].template.texts(given)

    def led_by(self, column: str) -> Conversation | None:
        """The same messages, with the column before all others in this one; None where it is a program of its own."""
        turn = self.turns[self.place]
        if not isinstance(turn.template, Template):
            return None
        led = replace(turn, template=turn.template.led_by(column))
        return Conversation((*self.turns[: self.place], led, *self.turns[self.place + 1 :]))

    def around(self, content: str) -> list[dict[str, object]]:
        """All messages as a chat template takes them, with `content` in this one."""
        return [
            _plain(turn.role, content if place == self.place else turn.template.marked(""))
            for place, turn in enumerate(self.turns)
        ]


def as_chat(messages: Sequence[Message]) -> list[dict[str, object]]:
    """As a chat template takes them."""
    return [
        {"role": message.role, "content": None if message.content is None else message.content.text, **message.more}
        for message in messages
    ]


def _plain(role: str, content: str) -> dict[str, object]:
    return {"role": role, "content": content}
