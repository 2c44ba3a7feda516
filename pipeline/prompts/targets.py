"""Stage 2: a text of each row that is to be scored behind its prompt, as the ids that would follow there."""

from collections.abc import Sequence

from pipeline.errors import RowError
from pipeline.prompts.cleaning import Cleaning
from pipeline.prompts.plain import Place
from pipeline.prompts.template import Field, Template
from pipeline.prompts.vocabulary import Vocabulary
from pipeline.rows import Row

_PROBE = "a word"


class Targets:
    """Behind the prompt's ids they are what encoding prompt and text as one gives.

    Where a tokenizer would merge the prompt's end with the text's beginning, the prompt stays as it is, and the text is
    encoded by itself, as one that stands behind other text.
    """

    def __init__(
        self, vocabulary: Vocabulary, column: str, tail: str, joiner: str, cleaning: Cleaning, *, whole: bool
    ) -> None:
        """`tail` ends every prompt, or is the `whole` of it; `joiner` goes before a text that begins with no space."""
        self._plain, self._column, self._joiner, self._cleaning = vocabulary.plain, column, joiner, cleaning
        self._template = Template((Field(column),))
        end = max((end for _, end, _ in vocabulary.special_spans(tail)), default=0)
        self._before = tail[end:]
        if end:
            self._place = _behind_special(vocabulary, tail, self._before)
        else:
            self._place = Place.START if whole else Place.MIDDLE
        self._before_ids = self._plain.encode(self._before, self._place).ids

    def ids(self, rows: Sequence[Row]) -> list[tuple[int, ...] | RowError]:
        """One for each row; never empty. A special token in its text is plain text."""
        texts = [self._text(row) for row in rows]
        behind = [self._before + text for text in texts if isinstance(text, str)]
        found = iter(self._plain.encode_batch(behind, self._place))
        return [text if isinstance(text, RowError) else self._cut(text, next(found)) for text in texts]

    def holds_special(self, row: Row) -> bool:
        """Whether the row's text has a special token in it."""
        text = self._text(row)
        return isinstance(text, str) and self._plain.holds_special(text)

    def _text(self, row: Row) -> str | RowError:
        if row.values.get(self._column) is None:
            return RowError("null", f'The column "{self._column}" is null in this row, so there is nothing to score.')
        try:
            text = self._cleaning.clean(self._template.values(row)[self._column])
        except RowError as error:
            return error
        if not text:
            return self._empty()
        return text if text[0].isspace() else self._joiner + text

    def _cut(self, text: str, found: list[int] | RowError) -> tuple[int, ...] | RowError:
        shared = len(self._before_ids)
        if not isinstance(found, RowError) and found[:shared] != self._before_ids:
            (found,), shared = self._plain.encode_batch([text], Place.MIDDLE), 0
        if isinstance(found, RowError):
            return found
        return tuple(found[shared:]) or self._empty()

    def _empty(self) -> RowError:
        return RowError("empty", f'The column "{self._column}" is empty in this row, so there is nothing to score.')


def _behind_special(vocabulary: Vocabulary, tail: str, before: str) -> Place:
    """Where text behind the tail's last special token stands: some tokenizers see text there like any other."""
    (whole,) = vocabulary.ids([tail + _PROBE])
    places = (Place.AFTER_SPECIAL, Place.MIDDLE)
    ids = {place: vocabulary.plain.encode(before + _PROBE, place).ids for place in places}
    return next((place for place in places if whole[-len(ids[place]) :] == ids[place]), Place.AFTER_SPECIAL)
