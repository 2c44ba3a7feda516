"""Stage 2: where a text is best cut: between sentences, else between words, else between characters."""

from collections.abc import Iterator

import regex

from pipeline.prompts.graphemes import cluster, is_boundary

Span = tuple[int, int]  #: characters of a text, the first included and the last excluded

#: What ends a sentence, with the space behind it. Chinese and Japanese put none there.
_SENTENCE_END = regex.compile(
    r"""(?<![\p{STerm}…])[\p{STerm}…]++["'”’»)\]]*+\s++|[。！？｡]++["'”’」』）]*+\s*+|\n\s*+"""
)
_WORD_END = regex.compile(r"\s+")
#: What is given up for an end that is easy to read: a fifth of the text, or a word.
_GIVEN_UP, _WORD = 5, 16
#: Characters of a sentence. What is shorter goes with the next one, such as "Dr. "; what is longer is taken apart.
_SHORTEST, _LONGEST = 8, 400


def end_near(text: str, start: int, end: int) -> int:
    """The best end for a text that begins at `start` and ends at `end` at the latest."""
    if end >= len(text):
        return len(text)
    least = max(start + 1, end - max((end - start) // _GIVEN_UP, _WORD))
    for ending in (_SENTENCE_END, _WORD_END):
        if found := list(_starts(ending, text, least, end + 1)):
            return _without_space(text, start, found[-1])
    return cluster(text, end, start)[0]


def start_near(text: str, start: int, end: int) -> int:
    """The best start for a text that ends at `end` and begins at `start` at the earliest."""
    if start <= 0:
        return 0
    latest = min(start + max((end - start) // _GIVEN_UP, _WORD), end - 1)
    for ending in (_SENTENCE_END, _WORD_END):
        # What ends the sentence before stands before the start.
        for found in _starts(ending, text, max(0, start - 2), latest):
            if found >= start:
                return found
    begin, finish = cluster(text, start)
    return start if begin == start else min(finish, end)


def sentences(text: str) -> list[Span]:
    """All of the text, each with the space behind it."""
    spans: list[Span] = []
    start = 0
    for found in _SENTENCE_END.finditer(text):
        if found.end() - start >= _SHORTEST and is_boundary(text, found.end()):
            spans += _short_enough(text, start, found.end())
            start = found.end()
    return [*spans, *_short_enough(text, start, len(text))] if start < len(text) else spans


def _starts(ending: "regex.Pattern[str]", text: str, start: int, end: int) -> Iterator[int]:
    # A part of the text, so that what ends a sentence may have begun before it.
    ends = (start + found.end() for found in ending.finditer(text[start:end]))
    return (end for end in ends if is_boundary(text, end))


def _without_space(text: str, start: int, end: int) -> int:
    bare = start + len(text[start:end].rstrip())
    return bare if is_boundary(text, bare) else end


def _short_enough(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > _LONGEST:
        words = list(_starts(_WORD_END, text, start + _LONGEST // 2, start + _LONGEST))
        begin, finish = cluster(text, start + _LONGEST, start)
        cut = words[-1] if words else begin if begin > start else finish
        yield start, cut
        start = cut
    yield start, end
