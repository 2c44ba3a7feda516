"""Stage 2: the labels that a row may be answered with, as the ids that would follow its prompt."""

from collections.abc import Sequence

from pipeline.errors import RowError, SpecError
from pipeline.prompts.content import hidden
from pipeline.prompts.plain import Place
from pipeline.prompts.vocabulary import Vocabulary

#: What stands behind a label that holds, and behind one that does not.
_HOLDS, _FAILS = ": yes", ": no"


def continuations(
    vocabulary: Vocabulary, tail: str, joiner: str, choices: Sequence[str], *, nested: bool = False
) -> list[tuple[int, ...]]:
    """Ids of each choice behind `tail`, the text that ends every prompt.

    Raises SpecError where two are the same, or, unless they may be `nested`, one begins another.
    """
    ids = [_continuation(vocabulary, tail, joiner, choice) for choice in choices]
    for place, found in enumerate(ids):
        if not found:
            raise SpecError(f'The choice "{choices[place]}" has no tokens in this model\'s vocabulary. Name another.')
        if (earlier := ids.index(found)) < place:
            raise SpecError(
                f'The choices "{choices[earlier]}" and "{choices[place]}" are the same tokens to this model, so it '
                "cannot choose between them. Name one of them otherwise."
            )
    if not nested:
        _refuse_nested(choices, ids)
    return ids


def verdicts(labels: Sequence[str]) -> list[str]:
    """For each label how a prompt goes on where it holds, then where it does not."""
    return [f"{label}{end}" for label in labels for end in (_HOLDS, _FAILS)]


def _refuse_nested(choices: Sequence[str], ids: Sequence[tuple[int, ...]]) -> None:
    for place, found in enumerate(ids):
        for other, longer in enumerate(ids):
            if other != place and longer[: len(found)] == found:
                raise SpecError(
                    f'The choice "{choices[place]}" is the beginning of the choice "{choices[other]}", which then can '
                    "never be the likelier one. Name one of them otherwise, or add --length-normalize, which compares "
                    "them by the mean of their tokens."
                )


def _continuation(vocabulary: Vocabulary, tail: str, joiner: str, choice: str) -> tuple[int, ...]:
    try:
        before = vocabulary.encode_trusting(tail, tail)
        whole = vocabulary.encode_trusting(tail + joiner + choice, tail + joiner + hidden(choice))
    except RowError as error:
        raise SpecError(f'The choice "{choice}" cannot be used: it holds a special token of the model.') from error
    if before and whole[: len(before)] == before:
        return tuple(whole[len(before) :])
    (alone,) = vocabulary.plain.encode_batch([joiner + choice], Place.MIDDLE)
    return () if isinstance(alone, RowError) else tuple(alone)
