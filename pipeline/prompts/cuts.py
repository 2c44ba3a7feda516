"""Stage 2: what is kept of a text that is too long, in about so many tokens."""

from collections.abc import Callable, Mapping

from pipeline.prompts.breaks import Span, end_near, sentences, start_near
from pipeline.prompts.ruler import Ruler
from pipeline.prompts.salience import most_salient

#: Stands where the middle was.
MARK = " [...] "


def cut(how: str, ruler: Ruler, tokens: int) -> str:
    """`how` as in JobSpec.on_too_long. What is kept stands in its order, and no character of it is cut in two."""
    spans = [(start, end) for start, end in _KEPT[how](ruler, tokens) if start < end]
    between = MARK if how == "middle" else ""
    return between.join(ruler.text[start:end] for start, end in spans)


def _head(ruler: Ruler, tokens: int) -> list[Span]:
    return [(0, end_near(ruler.text, 0, ruler.end(0, tokens)))]


def _tail(ruler: Ruler, tokens: int) -> list[Span]:
    length = len(ruler.text)
    return [(start_near(ruler.text, ruler.start(length, tokens), length), length)]


def _middle(ruler: Ruler, tokens: int) -> list[Span]:
    half = (tokens - ruler.length(MARK)) // 2
    if half < 1:
        return _head(ruler, tokens)
    ((_, end),), ((start, length),) = _head(ruler, half), _tail(ruler, half)
    return [(0, end), (max(start, end), length)]


def _salient(ruler: Ruler, tokens: int) -> list[Span]:
    spans = sentences(ruler.text)
    texts = [ruler.text[start:end] for start, end in spans]
    picked = sorted(most_salient(texts, ruler.lengths(spans), tokens))
    return [spans[place] for place in picked] or _head(ruler, tokens)


_KEPT: Mapping[str, Callable[[Ruler, int], list[Span]]] = {
    "head": _head,
    "tail": _tail,
    "middle": _middle,
    "salient": _salient,
}
