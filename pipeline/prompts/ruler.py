"""Stage 2: how many tokens a stretch of a text has, roughly: what stands beside it may merge with its ends."""

from collections.abc import Iterator, Sequence
from itertools import count

from pipeline.errors import RowError
from pipeline.prompts.breaks import Span
from pipeline.prompts.plain import Place, PlainText

#: Characters to a token at first; where a token has more, twice as many of them, and so on.
_CHARACTERS = 8


class Ruler:
    """Of one text. No more of it is encoded than is asked about: it may be a thousand times what is kept of it."""

    def __init__(self, plain: PlainText, text: str) -> None:
        self._plain, self.text = plain, text

    def end(self, start: int, tokens: int) -> int:
        """The character at which so many tokens from `start` on end."""
        for width in _widths(tokens):
            offsets = self._offsets(start, start + width)
            if len(offsets) > tokens:
                return start + offsets[tokens][0]
            if start + width >= len(self.text):
                break
        return len(self.text)

    def start(self, end: int, tokens: int) -> int:
        """The character at which so many tokens before `end` start."""
        for width in _widths(tokens):
            begin = max(0, end - width)
            offsets = self._offsets(begin, end)
            if len(offsets) > tokens:
                return begin + offsets[-tokens - 1][1]
            if begin == 0:
                break
        return 0

    def lengths(self, spans: Sequence[Span]) -> list[int]:
        """Tokens of each."""
        texts = [self.text[start:end] for start, end in spans]
        found = self._plain.encode_batch(texts, Place.MIDDLE)
        # One that cannot be written as plain text is not kept.
        return [len(self.text) if isinstance(ids, RowError) else len(ids) for ids in found]

    def length(self, text: str) -> int:
        """Tokens of another text."""
        return len(self._plain.encode(text, Place.MIDDLE).ids)

    def _offsets(self, start: int, end: int) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = self._plain.encode(self.text[start:end], Place.MIDDLE).offsets
        return offsets


def _widths(tokens: int) -> Iterator[int]:
    return (_CHARACTERS * (tokens + 1) << doubled for doubled in count())
