"""Stage 2: which sentences of a text say the most, by what stands in the text itself: no model, no other row."""

import math
from collections import Counter
from collections.abc import Sequence

import regex

#: A Chinese character counts as a word, as nothing parts them.
_WORD = regex.compile(r"\p{Han}|\w(?:[\w'’.,-]*\w)?")
_NUMBER = regex.compile(r"\p{N}")

_USUAL, _LONG_WORD, _NAME, _FIGURE = 1.0, 1.5, 2.0, 3.0
#: Letters of a word that is long.
_LONG = 8
#: Added to each sentence's tokens, so that a word alone is not the best sentence.
_BESIDES = 4


def by_salience(sentences: Sequence[str], tokens: Sequence[int]) -> list[int]:
    """Places of the sentences: first what says the most for its `tokens`, and of equals the earlier one.

    A word weighs as much as it is rare: the logarithm of all sentences to those that hold it (inverse document
    frequency, Spärck Jones 1972, a sentence being the document). Numbers, names and long words weigh more.
    """
    words = [_words(sentence) for sentence in sentences]
    holders = Counter(word for found in words for word in found)
    scores = [
        sum(weight * math.log1p(len(sentences) / holders[word]) for word, weight in found.items()) / (cost + _BESIDES)
        for found, cost in zip(words, tokens, strict=True)
    ]
    return sorted(range(len(sentences)), key=lambda place: (-scores[place], place))


def _words(sentence: str) -> dict[str, float]:
    """What each word weighs by its kind, where it stands first."""
    weights: dict[str, float] = {}
    for place, word in enumerate(_WORD.findall(sentence)):
        lower = word.lower()
        if lower not in weights:
            # Any word that opens a sentence has a capital, so only one further on tells.
            told = 1 if place == 0 else 0
            weights[lower] = _weight(word, has_capital=word[told:] != lower[told:])
    return weights


def _weight(word: str, *, has_capital: bool) -> float:
    if not word.isalpha() and _NUMBER.search(word):
        return _FIGURE
    if has_capital:
        return _NAME
    return _LONG_WORD if len(word) >= _LONG else _USUAL
