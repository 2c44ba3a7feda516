"""Stage 2, the slow road: each row's chat is rendered as a whole, for templates that look at the text."""

from collections.abc import Callable, Iterator, Sequence

from pipeline.errors import JobError, RowError
from pipeline.prompts.content import Content, hidden
from pipeline.prompts.conversation import Message
from pipeline.prompts.nested import strings, with_strings
from pipeline.prompts.segments import Segments
from pipeline.prompts.vocabulary import Vocabulary

Chat = Sequence[dict[str, object]]  #: messages as a chat template takes them
RenderChat = Callable[[Chat], str]

_PRIVATE = range(0xF0000, 0xFFFFE)  # characters that mean nothing to anyone

Span = tuple[int, int]
Ids = tuple[int, ...] | RowError


class Rendered:
    """Gives the ids of whole chats. A special token counts where the chat template or the prompt itself wrote it, never
    out of a value."""

    def __init__(self, vocabulary: Vocabulary, render: RenderChat, sample: Sequence[Sequence[Message]]) -> None:
        self._vocabulary, self._render = vocabulary, render
        outcomes = [_outcome(vocabulary, messages, render) for messages in sample]
        self._segments = Segments(vocabulary, [text for text in outcomes if isinstance(text, str)])

    def ids(self, chats: Sequence[Sequence[Message]]) -> list[Ids]:
        outcomes = [_outcome(self._vocabulary, messages, self._render) for messages in chats]
        found = iter(self._segments.ids([text for text in outcomes if isinstance(text, str)]))
        return [next(found) if isinstance(outcome, str) else outcome for outcome in outcomes]


def _outcome(vocabulary: Vocabulary, messages: Sequence[Message], render: RenderChat) -> str | Ids:
    """The chat as text, all of whose special tokens count, or its ids where some do not."""
    typed = [_typed(vocabulary, message) for message in messages]
    marks = _marks(messages, [name for names in typed for name in names])
    try:
        rendered = render([_marked(vocabulary, message, marks) for message in messages])
        if not marks:
            return rendered
        names = {ord(mark): name for name, mark in marks.items()}
        trusted = rendered.translate({mark: hidden(name) for mark, name in names.items()})
        return tuple(vocabulary.encode_trusting(rendered.translate(names), trusted))
    except RowError as error:
        return error
    except JobError as error:
        return RowError("chat_template", str(error))


def _typed(vocabulary: Vocabulary, message: Message) -> Iterator[str]:
    """The special tokens' names that no template wrote."""
    contents = [Content(text) for text in strings(dict(message.more))]
    for content in [message.content, *contents] if message.content else contents:
        yield from (content.text[start:end] for start, end in _spans(vocabulary, content))


def _marks(messages: Sequence[Message], names: Sequence[str]) -> dict[str, str]:
    """A character for each name, that nothing else stands for."""
    if not names:
        return {}
    taken = {character for message in messages for text in _texts(message) for character in text}
    free = (chr(code) for code in _PRIVATE if chr(code) not in taken)
    return dict(zip(dict.fromkeys(names), free, strict=False))


def _texts(message: Message) -> Iterator[str]:
    if message.content:
        yield message.content.text
    yield from strings(dict(message.more))


def _marked(vocabulary: Vocabulary, message: Message, marks: dict[str, str]) -> dict[str, object]:
    def replaced(content: Content) -> str:
        parts, end = [], 0
        for start, next_end in _spans(vocabulary, content) if marks else ():
            parts += [content.text[end:start], marks[content.text[start:next_end]]]
            end = next_end
        return "".join([*parts, content.text[end:]])

    more = with_strings(dict(message.more), lambda text: replaced(Content(text)))
    assert isinstance(more, dict)
    return {"role": message.role, "content": message.content and replaced(message.content), **more}


def _spans(vocabulary: Vocabulary, content: Content) -> list[Span]:
    """Of what is special in the text and not in what is trusted of it, without the spaces that it swallows."""
    found = vocabulary.special_spans(content.text)
    written = set(vocabulary.special_spans(content.trusted)) if found else set()
    return [
        _without_spaces(content.text, start, end)
        for start, end, token_id in found
        if (start, end, token_id) not in written
    ]


def _without_spaces(text: str, start: int, end: int) -> Span:
    bare = text[start:end].strip()
    begin = start + text[start:end].index(bare)
    return begin, begin + len(bare)
