"""Stage 2: the hot prefix and what is left to encode of each row; the cut between them is proven, never assumed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tokenizers import Encoding

from pipeline.errors import RowError
from pipeline.prompts.pieces import Piece, Step
from pipeline.prompts.vocabulary import Vocabulary

Values = Mapping[str, str]  #: a row's text by column

_VALUE = "x"


@dataclass(frozen=True, slots=True)
class Recipe:
    """Every row's ids are `prefix`, then the ids of `steps` one after the other."""

    prefix: tuple[int, ...]
    steps: tuple[Step, ...]

    def own_ids(self, vocabulary: Vocabulary, rows: Sequence[Values]) -> list[tuple[int, ...] | RowError]:
        columns = [self._ids_of_step(vocabulary, step, rows) for step in self.steps]
        return [_joined(parts) for parts in zip(*columns, strict=True)] if columns else [()] * len(rows)

    def _ids_of_step(
        self, vocabulary: Vocabulary, step: Step, rows: Sequence[Values]
    ) -> Sequence[Sequence[int] | RowError]:
        if isinstance(step, tuple):
            return [step] * len(rows)
        texts = [step.text(values) for values in rows]
        found = vocabulary.plain.encode_batch(texts, step.place)
        return [ids if isinstance(ids, RowError) else ids[step.skip :] for ids in found] if step.skip else found


def find_recipe(
    vocabulary: Vocabulary, steps: tuple[Step, ...], proofs: Sequence[tuple[Values, list[int]]]
) -> Recipe | None:
    """The recipe with the longest prefix that gives each proof's ids, and least to encode behind the last field; None
    where there is none."""
    rows = [values for values, _ in proofs]

    def is_proven(recipe: Recipe) -> bool:
        own = recipe.own_ids(vocabulary, rows)
        return all(
            isinstance(ids, tuple) and ids and [*recipe.prefix, *ids] == whole
            for ids, (_, whole) in zip(own, proofs, strict=True)
        )

    longest = next(filter(is_proven, _recipes(vocabulary, steps)), None)
    return longest and next(filter(is_proven, _shortened(vocabulary, longest)), longest)


def _joined(parts: Sequence[Sequence[int] | RowError]) -> tuple[int, ...] | RowError:
    ids: list[int] = []
    for part in parts:
        if isinstance(part, RowError):
            return part
        ids += part
    return tuple(ids)


def _recipes(vocabulary: Vocabulary, steps: tuple[Step, ...]) -> Iterator[Recipe]:
    """Longest prefix first; a prefix that ends in the midst of the first piece is tried at ever earlier cuts."""
    fixed, rest = (steps[0], steps[1:]) if steps and isinstance(steps[0], tuple) else ((), steps)
    if rest and isinstance(piece := rest[0], Piece):
        for ids, later in _cuts(vocabulary, piece):
            yield Recipe(fixed + ids, (later, *rest[1:]))
    yield Recipe(fixed, rest)
    if fixed:
        yield Recipe(fixed[:-1], (fixed[-1:], *rest))


def _cuts(vocabulary: Vocabulary, piece: Piece) -> Iterator[tuple[tuple[int, ...], Piece]]:
    """Ids up to a cut in the text before the first field, and the piece from there on.

    The last word is left to the row, for it may merge with the value, and so is what may begin an added token. The word
    before the cut stays in the piece and its ids are skipped: no tokenizer then takes what follows for the start of a
    text.
    """
    if piece.swallows[0]:
        return
    encoding = vocabulary.plain.encode(piece.before, piece.place)
    starts = _word_starts(piece.before, encoding) or _spaces(vocabulary, piece.before, encoding)
    end = min(len(piece.before.rstrip()), len(piece.before) - vocabulary.open_at_end(piece.before) + 1)
    usable = [(0, 0), *((token, at) for token, at in starts[:-1] if 0 < at < end)]
    back = 1
    while back < len(usable):
        (_, context), (token, at) = usable[-back - 1], usable[-back]
        before = piece.before[context:]
        offsets = vocabulary.plain.encode(before, piece.place).offsets
        skip = sum(start < at - context for start, _ in offsets)
        yield tuple(encoding.ids[:token]), replace(piece, before=before, skip=skip)
        back *= 2


def _shortened(vocabulary: Vocabulary, recipe: Recipe) -> Iterator[Recipe]:
    """The text behind the last field cut, at ever later places: what follows the cut is known before any row is."""
    match recipe.steps:
        case (*steps, Piece() as piece):
            fixed: tuple[int, ...] = ()
        case (*steps, Piece() as piece, tuple() as fixed):
            pass
        case _:
            return
    for after, ids in _end_cuts(vocabulary, piece):
        yield Recipe(recipe.prefix, (*steps, replace(piece, after=after), ids + fixed))


def _end_cuts(vocabulary: Vocabulary, piece: Piece) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Text up to a cut, and ids from there on.

    Cut is between two words with one space between them: other places may be the midst of a word behind some values,
    such as "/." behind a full stop and a new line. What may end an added token stays before the cut, and a letter more.
    """
    text = piece.after
    encoding = vocabulary.plain.encode(_VALUE + text, piece.place)
    starts = _word_starts(_VALUE + text, encoding) or _spaces(vocabulary, _VALUE + text, encoding)
    first = vocabulary.open_at_start(text)
    ends = ((token, encoding.offsets[token - 1][1] - len(_VALUE)) for token, _ in starts)
    usable = [(token, end) for token, end in ends if end > first and _parts_words(text, end)]
    place = 1
    while place <= len(usable):
        token, end = usable[place - 1]
        yield text[:end], tuple(encoding.ids[token:])
        place *= 2


def _parts_words(text: str, at: int) -> bool:
    return text[at : at + 1] == " " and not text[at - 1].isspace() and text[at + 1 : at + 2].isalnum()


def _word_starts(text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """(token, character) where the tokenizer begins a new word, not in the midst of a number."""
    words = encoding.word_ids
    return [
        (token, at)
        for token, at in _token_starts(encoding)
        if words[token] != words[token - 1] and not (text[at - 1].isdigit() and text[at : at + 1].isdigit())
    ]


def _spaces(vocabulary: Vocabulary, text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """(token, character) of the first space after other text, for a tokenizer that sees no words in a text."""
    if not vocabulary.splits_at_spaces():
        return []
    return [(token, at) for token, at in _token_starts(encoding) if text[at] == " " and text[at - 1] != " "]


def _token_starts(encoding: Encoding) -> Iterator[tuple[int, int]]:
    for token in range(1, len(encoding.ids)):
        at = encoding.offsets[token][0]
        if 0 < encoding.offsets[token - 1][1] <= at:
            yield token, at
