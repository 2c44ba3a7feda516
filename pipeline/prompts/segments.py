"""Stage 2, the slow road: rendered chats cut before special tokens, so that what many begin with is encoded once."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain

from tokenizers import AddedToken

from pipeline.prompts.vocabulary import Vocabulary


class Segments:
    """Gives the ids of whole texts. What stands twice in one call is known in the next.

    A text's ids are those of its segments end to end: a tokenizer looks for special tokens before all else, and what
    it makes of the text between two of them hangs on nothing outside. From the second on, a segment begins with one,
    so that none of its plain text is taken for the start of a whole.
    """

    def __init__(self, vocabulary: Vocabulary, sample: Sequence[str]) -> None:
        """Cuts only where the sample's texts prove it right."""
        self._vocabulary = vocabulary
        self._starts = _starts(vocabulary.added.values())
        self._known: dict[str, list[int]] = {}
        if self.ids(sample) != [tuple(ids) for ids in vocabulary.ids(sample)]:
            self._starts, self._known = None, {}

    def ids(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """As the tokenizer has the whole of each, without its opening ids."""
        cut = [self._cut(text) for text in texts]
        counts = Counter(chain.from_iterable(cut))
        new = [segment for segment in counts if segment not in self._known]
        found = self._known | dict(zip(new, self._vocabulary.ids(new), strict=True))
        self._known = {segment: found[segment] for segment, count in counts.items() if count > 1}
        return [tuple(chain.from_iterable(map(found.__getitem__, segments))) for segments in cut]

    def _cut(self, text: str) -> list[str]:
        if self._starts is None:
            return [text]
        starts = [0, *(found.start() for found in self._starts.finditer(text) if found.start())]
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _starts(added: Collection[AddedToken]) -> re.Pattern[str] | None:
    """What a text may be cut before; None where there is nothing of the kind."""
    if any(token.single_word for token in added):
        return None  # it looks at the characters beside it
    within = set(chain.from_iterable(token.content[1:] for token in added))
    usable = [token.content for token in added if token.special and _begins_alone(token, added, within)]
    return re.compile("|".join(map(re.escape, sorted(usable)))) if usable else None


def _begins_alone(token: AddedToken, added: Collection[AddedToken], within: Collection[str]) -> bool:
    """Whether, where its name stands, a token begins that takes nothing from before it: this one, or a longer one."""
    longer = [other for other in added if other.content.startswith(token.content)]
    is_sought_first = not any(other.normalized or other.lstrip for other in longer)
    return is_sought_first and token.content[0] not in within
