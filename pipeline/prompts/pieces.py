"""Stage 2: a whole prompt cut at the template's own special tokens, into fixed ids and pieces of plain text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.prompts.content import hidden
from pipeline.prompts.frame import Frame
from pipeline.prompts.plain import Place
from pipeline.prompts.template import Field, Literal, Segment, fill
from pipeline.prompts.vocabulary import Vocabulary

#: What a special token with lstrip or rstrip swallows: Unicode's White_Space, which str.strip() goes beyond.
_SWALLOWED = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@dataclass(frozen=True, slots=True)
class Piece:
    """Plain text with fields in it. The pairs say what happens at its left and at its right end."""

    before: str  #: of the chat template and of the prompt, the same for every row
    content: tuple[Segment, ...]
    after: str  #: as `before`
    place: Place
    trims: tuple[bool, bool]  #: the chat template trims the content
    swallows: tuple[bool, bool]  #: a special token beside it takes the spaces
    skip: int = 0  #: ids of the text's beginning that are in the hot prefix already

    def varies(self) -> bool:
        return any(isinstance(part, Field) for part in self.content)

    def text(self, values: Mapping[str, str]) -> str:
        content = fill(self.content, values)
        content = content.lstrip() if self.trims[0] else content
        content = content.rstrip() if self.trims[1] else content
        text = self.before + content + self.after
        text = text.lstrip(_SWALLOWED) if self.swallows[0] else text
        return text.rstrip(_SWALLOWED) if self.swallows[1] else text


Step = tuple[int, ...] | Piece


def split(
    vocabulary: Vocabulary, frame: Frame, content: tuple[Segment, ...], opening: tuple[int, ...]
) -> tuple[Step, ...]:
    """Fixed ids and pieces in turn, the `opening` ids first; no run of fixed ids is empty or beside another."""
    steps: list[Step] = []
    fixed = opening
    for step in _steps(vocabulary, frame, content):
        if isinstance(step, Piece) and step.varies():
            steps += [fixed, step] if fixed else [step]
            fixed = ()
        else:
            fixed += step if isinstance(step, tuple) else _fixed_ids(vocabulary, step)
    return (*steps, fixed) if fixed else tuple(steps)


def _steps(vocabulary: Vocabulary, frame: Frame, content: tuple[Segment, ...]) -> Iterator[Step]:
    sample = "".join(part.text if isinstance(part, Literal) else hidden("x") for part in content)
    whole = frame.head + sample + frame.tail
    begin, finish = len(frame.head), len(frame.head) + len(sample)
    start, place, swallows = 0, Place.START, False
    for end, next_start, token_id in [*vocabulary.special_spans(whole), (len(whole), 0, -1)]:
        token = vocabulary.special.get(token_id)
        yield _settled(
            Piece(
                before=whole[start : min(end, begin)],
                content=tuple(_clip(content, start - begin, end - begin)),
                after=whole[max(start, finish) : end],
                place=place,
                trims=(frame.trims_left and start <= begin, frame.trims_right and end >= finish),
                swallows=(swallows, token is not None and token.lstrip),
            )
        )
        if token is not None:
            yield (token_id,)
            start, place, swallows = next_start, Place.AFTER_SPECIAL, token.rstrip


def _clip(content: Sequence[Segment], start: int, end: int) -> Iterator[Segment]:
    """What lies from start to end, a field counted as one character."""
    at = 0
    for part in content:
        if isinstance(part, Field):
            if start <= at < end:
                yield part
            at += 1
            continue
        text = part.text[max(0, start - at) : max(0, end - at)]
        at += len(part.text)
        if text:
            yield Literal(text)


def _settled(piece: Piece) -> Piece:
    """The same piece with as much of it as possible in `before` and `after`, where no value changes it."""
    return _settled_left(_settled_right(piece))


def _settled_right(piece: Piece) -> Piece:
    if len(piece.content) > 1 and isinstance(last := piece.content[-1], Literal):
        text = last.text.rstrip() if piece.trims[1] else last.text
        fixed = text.lstrip() if piece.trims[0] else text
        rest = (Literal(text[: len(text) - len(fixed)]),) if len(fixed) < len(text) else ()
        trims = (piece.trims[0], piece.trims[1] and not text)
        piece = replace(piece, content=piece.content[:-1] + rest, after=fixed + piece.after, trims=trims)
    if piece.swallows[1] and (after := piece.after.rstrip(_SWALLOWED)):
        piece = replace(piece, after=after, swallows=(piece.swallows[0], False))
    return piece


def _settled_left(piece: Piece) -> Piece:
    if len(piece.content) > 1 and isinstance(first := piece.content[0], Literal):
        text = first.text.lstrip() if piece.trims[0] else first.text
        fixed = text.rstrip() if piece.trims[1] else text
        rest = (Literal(text[len(fixed) :]),) if len(fixed) < len(text) else ()
        trims = (piece.trims[0] and not text, piece.trims[1])
        piece = replace(piece, before=piece.before + fixed, content=rest + piece.content[1:], trims=trims)
    if piece.swallows[0] and (before := piece.before.lstrip(_SWALLOWED)):
        piece = replace(piece, before=before, swallows=(False, piece.swallows[1]))
    return piece


def _fixed_ids(vocabulary: Vocabulary, piece: Piece) -> tuple[int, ...]:
    return tuple(vocabulary.plain.encode(piece.text({}), piece.place).ids)
