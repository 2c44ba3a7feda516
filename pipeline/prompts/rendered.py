"""Stage 2, the slow road: each row's chat is rendered and encoded as a whole, for templates that look at the text."""

from collections.abc import Iterator, Mapping
from itertools import islice

from pipeline.errors import JobError, RowError
from pipeline.prompts.frame import Render
from pipeline.prompts.template import Literal, Template
from pipeline.prompts.vocabulary import Vocabulary, hidden

_PRIVATE = range(0xF0000, 0xFFFFE)  # characters that mean nothing to anyone


def whole_ids(
    vocabulary: Vocabulary, template: Template, render: Render, values: Mapping[str, str]
) -> tuple[int, ...] | RowError:
    """A special token counts where the chat template or the prompt itself wrote it, never out of a value."""
    content = template.fill(values)
    typed = _typed_spans(vocabulary, template, values, content)
    try:
        if not typed:
            return tuple(vocabulary.encode(render(content)).ids)
        marks = [chr(code) for code in islice((c for c in _PRIVATE if chr(c) not in content), len(typed))]
        rendered = render(_replaced(content, typed, marks))
        names = {ord(mark): content[start:end] for mark, (start, end) in zip(marks, typed, strict=True)}
        trusted = rendered.translate({mark: hidden(name) for mark, name in names.items()})
        return tuple(vocabulary.encode_trusting(rendered.translate(names), trusted))
    except RowError as error:
        return error
    except JobError as error:
        return RowError("chat_template", str(error))


def _typed_spans(
    vocabulary: Vocabulary, template: Template, values: Mapping[str, str], content: str
) -> list[tuple[int, int]]:
    written = list(_literal_spans(template, values))
    return [
        (start + _blank(content[start:end]), start + len(content[start:end].rstrip()))
        for start, end, _ in vocabulary.special_spans(content)
        if not any(begin <= start and end <= finish for begin, finish in written)
    ]


def _blank(text: str) -> int:
    return len(text) - len(text.lstrip())


def _literal_spans(template: Template, values: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    at = 0
    for part in template.segments:
        size = len(part.text if isinstance(part, Literal) else values[part.column])
        if isinstance(part, Literal):
            yield at, at + size
        at += size


def _replaced(text: str, spans: list[tuple[int, int]], marks: list[str]) -> str:
    parts, end = [], 0
    for (start, next_end), mark in zip(spans, marks, strict=True):
        parts += [text[end:start], mark]
        end = next_end
    return "".join([*parts, text[end:]])
