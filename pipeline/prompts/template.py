"""Stage 2, first step: the prompt as a person wrote it, `{column}` placeholders and all, as literals and fields."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipeline.errors import RowError, SpecError
from pipeline.prompts.content import Content, hidden
from pipeline.prompts.nested import encodable, json_like, not_text
from pipeline.rows import Row


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Field:
    column: str


Segment = Literal | Field

Given = Mapping[str, object]  #: a row's values by column, as far as a prompt can use them

_MARKS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """Literals and fields in order; no two literals stand side by side, none is empty, and there is a segment."""

    segments: tuple[Segment, ...]
    columns: tuple[str, ...] = field(init=False, compare=False)  #: each once, in the order of first use

    def __post_init__(self) -> None:
        columns = dict.fromkeys(part.column for part in self.segments if isinstance(part, Field))
        object.__setattr__(self, "columns", tuple(columns))

    @classmethod
    def parse(cls, text: str) -> "Template":
        """`{column}` is a field, `{{` and `}}` are braces. Raises SpecError with the position of a fault."""
        segments = tuple(_joined(_marks(text)))
        if not segments:
            raise SpecError("The prompt is empty.")
        return cls(segments)

    def values(self, row: Row) -> dict[str, str]:
        """The row's values as text, by column. Raises RowError for a null or a value that is no text."""
        return {column: _as_text(column, row.values.get(column)) for column in self.columns}

    def led_by(self, column: str) -> "Template":
        """The same with the column's first field before all others, behind the text that they follow."""
        first = next(place for place, part in enumerate(self.segments) if isinstance(part, Field))
        rest = list(self.segments)
        rest.remove(Field(column))
        return Template(tuple(_joined(iter([*rest[:first], Field(column), *rest[first:]]))))

    def fill(self, values: Mapping[str, str]) -> str:
        """The whole prompt. Values are put in as they are and never read as a template again."""
        return fill(self.segments, values)

    def texts(self, given: Given) -> dict[str, str]:
        """What stands in the fields."""
        return {column: str(given[column]) for column in self.columns}

    def content(self, given: Given) -> Content:
        """The whole prompt, of which the values are not trusted."""
        texts = self.texts(given)
        return Content(self.fill(texts), self.fill({column: hidden(text) for column, text in texts.items()}))

    def marked(self, mark: str) -> str:
        """The whole prompt with the mark in every field."""
        return self.fill(dict.fromkeys(self.columns, mark))

    @property
    def within(self) -> tuple[str, ...]:
        """Its own texts that stand in what fills a field: none."""
        return ()

    def times(self, column: str) -> int:
        return self.segments.count(Field(column))

    def at(self, submitted_at: datetime) -> "Template":
        """It shows no clock."""
        return self


def fill(segments: tuple[Segment, ...], values: Mapping[str, str]) -> str:
    return "".join([part.text if isinstance(part, Literal) else values[part.column] for part in segments])


def _marks(text: str) -> Iterator[Segment]:
    end = 0
    for mark in _MARKS.finditer(text):
        yield Literal(text[end : mark.start()])
        yield _segment(mark)
        end = mark.end()
    yield Literal(text[end:])


def _segment(mark: re.Match[str]) -> Segment:
    found, where = mark.group(), f"at character {mark.start() + 1}"
    if found in ("{{", "}}"):
        return Literal(found[0])
    if found in ("{", "}"):
        raise SpecError(f'The prompt has a lone "{found}" {where}. Write "{found}{found}" for the brace itself.')
    column = mark.group(1).strip()
    if not column:
        raise SpecError(
            f'The prompt has the empty placeholder "{found}" {where}. Name a column in it, '
            'or write "{{" and "}}" for the braces themselves.'
        )
    if re.search(r"[!:\[\]]", column):
        raise SpecError(
            f'The prompt has the placeholder "{found}" {where}. A placeholder holds a column\'s name alone, '
            'with no "!", ":" or "[ ]"; write "{{" and "}}" for the braces themselves.'
        )
    return Field(column)


def _joined(segments: Iterator[Segment]) -> Iterator[Segment]:
    literal = ""
    for segment in segments:
        if isinstance(segment, Literal):
            literal += segment.text
            continue
        if literal:
            yield Literal(literal)
        literal = ""
        yield segment
    if literal:
        yield Literal(literal)


def _as_text(column: str, value: object) -> str:
    if isinstance(value, str):
        return encodable(column, value)
    if value is None:
        raise RowError("null", f'The column "{column}" is null in this row, so its prompt cannot be filled in.')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        raise not_text(column, value)
    return str(json_like(column, value))
